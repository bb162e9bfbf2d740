/**
 * The tour: a card beside what it tells of, on the real page.
 *
 * Nothing is covered or locked: the page works on, a click elsewhere changes nothing. Escape pauses, and the user's menu
 * goes on with it. Focus is on the card's button at each step, so Enter leads on.
 */

import { Button, Group, Popover, Portal } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { useLocation, useNavigate } from 'react-router';

import { fetchPipelines } from '../../api/pipelines';
import { useCluster } from '../../hooks/useLive';
import { useTour } from '../../hooks/useTour';
import { STEPS, type TourStep } from '../../model/tour';
import { moveTour } from '../../store/tour';
import { t } from '../../texts/t';
import classes from './Tour.module.css';

/** How often it looks where the element is: pages come late, scroll and change under it. */
const LOOK_MS = 200;
const GAP = 4;

interface Place {
  readonly top: number;
  readonly left: number;
  readonly width: number;
  readonly height: number;
}

export function Tour({ user }: { readonly user: string }) {
  const { step } = useTour(user);
  const shown = STEPS[step];
  return shown === undefined ? null : <Step key={step} user={user} number={step} step={shown} />;
}

interface StepProps {
  readonly user: string;
  readonly number: number;
  readonly step: TourStep;
}

function Step({ user, number, step }: StepProps) {
  const hasNone = usePageOf(step);
  const place = usePlace(step.target);
  const isLast = number + 1 === STEPS.length;
  const titleId = `tour-step-${number}`;
  return (
    <Portal>
      {place !== null && <div className={classes.ring} style={place} aria-hidden />}
      <Popover
        opened
        withArrow
        width={320}
        position={place === null ? 'top' : 'bottom'}
        shadow="lg"
        radius={10}
        withRoles={false}
        trapFocus={false}
        closeOnClickOutside={false}
        closeOnEscape={false}
        withinPortal={false}
        middlewares={{ shift: { padding: 12 }, flip: { fallbackPlacements: ['right', 'left', 'top'] } }}
      >
        <Popover.Target>
          <div className={classes.anchor} style={place ?? undefined} data-alone={place === null || undefined} />
        </Popover.Target>
        <Popover.Dropdown
          role="dialog"
          aria-labelledby={titleId}
          onKeyDown={(event) => {
            if (event.key === 'Escape') moveTour(user, 'pause');
          }}
        >
          <p className={classes.count}>{t('Step {number} of {count}', { number: number + 1, count: STEPS.length })}</p>
          <h2 id={titleId} className={classes.title}>
            {step.title}
          </h2>
          <p className={classes.text}>{step.text}</p>
          {hasNone && <p className={classes.text}>{t('Nothing to show here right now.')}</p>}
          <Group justify="space-between" mt="sm" gap="xs">
            <Button size="compact-sm" variant="subtle" color="gray" onClick={() => moveTour(user, 'end')}>
              {t('Skip')}
            </Button>
            <Group gap="xs">
              {number > 0 && (
                <Button size="compact-sm" variant="default" onClick={() => moveTour(user, 'back')}>
                  {t('Back')}
                </Button>
              )}
              <Button size="compact-sm" ref={focus} onClick={() => moveTour(user, 'next')}>
                {isLast ? t('Done') : t('Next')}
              </Button>
            </Group>
          </Group>
        </Popover.Dropdown>
      </Popover>
    </Portal>
  );
}

function focus(button: HTMLButtonElement | null): void {
  button?.focus({ preventScroll: true });
}

/** Goes to the page of a step, once; returns whether there is no such page, because nothing runs or is drawn. */
function usePageOf({ page }: TourStep): boolean {
  const navigate = useNavigate();
  const client = useQueryClient();
  const { data: cluster } = useCluster();
  const { pathname } = useLocation();
  const [hasNone, setHasNone] = useState(false);
  const isThere = useRef(false);
  useEffect(() => {
    if (isThere.current) return;
    const go = (path: string | null): void => {
      isThere.current = true;
      if (path === null) setHasNone(true);
      else if (path !== pathname) void navigate(path);
    };
    if (page === 'overview') go('/');
    else if (page === 'pipelines') go('/pipelines');
    else if (page === 'job') {
      if (pathname.startsWith('/jobs/')) go(pathname);
      else if (cluster !== undefined) {
        const job = cluster.jobs.find(({ state }) => state === 'RUNNING') ?? cluster.jobs[0];
        go(job === undefined ? null : `/jobs/${job.id}`);
      }
    } else if (pathname.endsWith('/edit')) go(pathname);
    else {
      const query = { queryKey: ['pipelines'], queryFn: fetchPipelines };
      void client.query(query).then(
        ([first]) => go(first === undefined ? null : `/pipelines/${first.id}/edit`),
        () => go(null),
      );
    }
  }, [page, pathname, cluster, navigate, client]);
  return hasNone;
}

/** Where an element is in the window; null: it is not there. */
function usePlace(selector: string): Place | null {
  const [place, setPlace] = useState<Place | null>(null);
  useEffect(() => {
    let isNew = true;
    const look = (): void => {
      const found = document.querySelector(selector);
      if (found !== null && isNew) {
        isNew = false;
        found.scrollIntoView({ block: 'nearest' });
      }
      const box = found?.getBoundingClientRect();
      const seen =
        box === undefined || box.width === 0
          ? null
          : {
              top: Math.round(box.top) - GAP,
              left: Math.round(box.left) - GAP,
              width: Math.round(box.width) + 2 * GAP,
              height: Math.min(Math.round(box.height), window.innerHeight - Math.max(box.top, 0) - 240) + 2 * GAP,
            };
      setPlace((before) => (JSON.stringify(before) === JSON.stringify(seen) ? before : seen));
    };
    look();
    const timer = setInterval(look, LOOK_MS);
    window.addEventListener('scroll', look, true);
    return () => {
      clearInterval(timer);
      window.removeEventListener('scroll', look, true);
    };
  }, [selector]);
  return place;
}
