/** Switch between light, dark and the system's theme. */

import { ActionIcon, Menu, type MantineColorScheme, useMantineColorScheme } from '@mantine/core';
import { type Icon, IconCheck, IconDeviceDesktop, IconMoon, IconSun } from '@tabler/icons-react';

import { t } from '../../texts/t';

const CHOICES: readonly { scheme: MantineColorScheme; label: string; icon: Icon }[] = [
  { scheme: 'auto', label: t('System'), icon: IconDeviceDesktop },
  { scheme: 'light', label: t('Light'), icon: IconSun },
  { scheme: 'dark', label: t('Dark'), icon: IconMoon },
];

export function ThemeSwitch() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const Current = CHOICES.find(({ scheme }) => scheme === colorScheme)?.icon ?? IconDeviceDesktop;
  return (
    <Menu position="bottom-end" width={160}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t('Theme: {colorScheme}', { colorScheme })}>
          <Current size={19} stroke={1.7} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.RadioGroup value={colorScheme} onChange={(scheme) => setColorScheme(scheme as MantineColorScheme)}>
          {CHOICES.map(({ scheme, label, icon: ChoiceIcon }) => (
            <Menu.RadioItem
              key={scheme}
              value={scheme}
              closeMenuOnClick
              checkIcon={<IconCheck size={15} />}
              rightSection={<ChoiceIcon size={16} stroke={1.7} />}
            >
              {label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}
