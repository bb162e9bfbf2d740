/** The current user, the time zone, and logout. */

import { Button, Menu, Text } from '@mantine/core';
import { IconCheck, IconChevronDown, IconLogout, IconRoute, IconTable, IconUser } from '@tabler/icons-react';
import { useState, useSyncExternalStore } from 'react';

import { ROOT } from '../../api/root';
import type { Session } from '../../gen/contract';
import { useLogout } from '../../hooks/useSession';
import { useTour } from '../../hooks/useTour';
import { mayAdminister } from '../../model/access';
import { getPreferences, setPreferences, subscribePreferences } from '../../store/preferences';
import { openTour } from '../../store/tour';
import { t } from '../../texts/t';

const ZONES = [
  ['local', t('Local time')],
  ['utc', 'UTC'],
] as const;

interface Props {
  readonly user: Session['user'];
}

export function UserMenu({ user }: Props) {
  const { utc } = useSyncExternalStore(subscribePreferences, getPreferences);
  const { mutate: logout } = useLogout();
  const tour = useTour(user.name);
  // the tour takes the focus: the menu must not take it back when it closes
  const [startsTour, setStartsTour] = useState(false);
  return (
    <Menu position="bottom-end" width={220} returnFocus={!startsTour} onOpen={() => setStartsTour(false)}>
      <Menu.Target>
        <Button
          variant="subtle"
          color="gray"
          size="sm"
          px={8}
          leftSection={<IconUser size={18} stroke={1.7} />}
          rightSection={<IconChevronDown size={14} />}
          aria-label={t('User {name}', { name: user.name })}
        >
          <Text span inherit truncate>
            {user.name}
          </Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{t('Role: {role}', { role: user.role })}</Menu.Label>
        <Menu.Divider />
        <Menu.Label>{t('Show times in')}</Menu.Label>
        <Menu.RadioGroup value={utc ? 'utc' : 'local'} onChange={(zone) => setPreferences({ utc: zone === 'utc' })}>
          {ZONES.map(([zone, label]) => (
            <Menu.RadioItem key={zone} value={zone} closeMenuOnClick checkIcon={<IconCheck size={15} />}>
              {label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Divider />
        <Menu.Item
          leftSection={<IconRoute size={16} stroke={1.7} />}
          onClick={() => {
            setStartsTour(true);
            openTour(user.name);
          }}
        >
          {tour.state === 'paused' ? t('Continue the tour (step {step})', { step: tour.step + 1 }) : t('Take the tour')}
        </Menu.Item>
        {mayAdminister(user.role) && (
          <Menu.Item component="a" href={`${ROOT}admin/`} leftSection={<IconTable size={16} stroke={1.7} />}>
            {t('Administration')}
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconLogout size={16} stroke={1.7} />} onClick={() => logout()}>
          {t('Log out')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
