-- name: newest_fetch
-- When the feed was last asked, and what came of it.
select fetched_at, outcome, detail from smart_schedule_profit_fetches where source = :source
order by fetched_at desc, id desc limit 1

-- name: store_fetch
-- One line per attempt to read a feed: its outcome and the flags of the whole snapshot.
insert into smart_schedule_profit_fetches (fetched_at, source, outcome, detail, prices, flags)
values (now(), :source, :outcome, :detail, :prices::integer, :flags::text[])

-- name: store_readings
-- The readings of a snapshot as they came; judging them is the tick's work. Two names of one key with different prices are
-- no price: which of them is meant is not known.
with named as (
    select coalesce(a.price_key, upper(trim(r.price_key))) as price_key, r.algorithm, r.taken_at, r.revenue, r.unit,
           r.currency, r.flags
    from unnest(:keys::text[], :algorithms::text[], :taken_at::timestamptz[], :revenues::double precision[],
                :units::text[], :currencies::text[], :flags::text[])
         as r (price_key, algorithm, taken_at, revenue, unit, currency, flags)
    -- a key that a project uses is itself, whatever an alias says of it
    left join smart_schedule_price_aliases a on a.alias = upper(trim(r.price_key))
        and not exists (select from projects p where upper(trim(p.price_key)) = a.alias)
), counted as (
    select price_key, count(distinct (revenue, unit, currency, algorithm)) > 1 as contradictory from named group by price_key
)
insert into smart_schedule_profit_readings
    (price_key, algorithm, taken_at, received_at, source, revenue, unit, currency, flags)
select distinct on (n.price_key) n.price_key, n.algorithm, n.taken_at, now(), :source,
       case when c.contradictory then 'NaN' else n.revenue end, n.unit, n.currency,
       coalesce(string_to_array(nullif(n.flags, ''), ','), '{}')
from named n join counted c using (price_key)
order by n.price_key, n.taken_at desc

-- name: due_schedules
-- The next due schedules that nobody else is scanning, in turns over the tenants so that a large one starves no other, by
-- rule and cursor. What was stored by hand and has no form outside the database stops only itself: a rule that is no object
-- comes as one without a kind, a cursor before any calendar as the epoch.
with turns as (
    select id, row_number() over (partition by tenant_id order by next_run_at, id) as turn
    from smart_schedule_schedules
    where next_run_at <= now() and not paused and archived_at is null and broken is null
), due as (
    select s.id, greatest(s.next_run_at, 'epoch') as next_run_at,
           case when jsonb_typeof(s.rule) = 'object' then s.rule else '{}' end::text as rule, s.time_zone
    from smart_schedule_schedules s
    where s.id = any (array(select id from turns where turn <= :page_size::integer order by turn, id limit :page_size::integer))
      and s.next_run_at <= now() and not s.paused and s.archived_at is null and s.broken is null
    order by s.id
    for no key update of s skip locked
)
select rule, time_zone, next_run_at, json_agg(id order by id) as schedule_ids
from due group by rule, time_zone, next_run_at order by min(id)

-- name: record_scan
-- Occurrences and cursors of one page in one go. A planned time that is recorded already stays as it is; one that meets
-- an occurrence still at work is recorded as skipped. Returns what is to be run, by kind.
with plan as (
    select p.*, s.tenant_id, s.kind, s.policy_id, s.version
    from unnest(:schedule_ids::bigint[], :run_at::timestamptz[], :missed_from::timestamptz[], :missed_counts::integer[],
                :next_run_at::timestamptz[]) as p (schedule_id, run_at, missed_from, missed_count, next_run_at)
    join smart_schedule_schedules s on s.id = p.schedule_id
), moved as (
    update smart_schedule_schedules s set next_run_at = p.next_run_at, updated_at = now()
    from plan p where s.id = p.schedule_id
), missed as (
    insert into smart_schedule_occurrences
        (tenant_id, schedule_id, kind, origin, planned_at, state, reason, missed_count, recorded_at, ended_at)
    select tenant_id, schedule_id, kind, 'planned', missed_from, 'skipped', 'missed', missed_count, now(), now()
    from plan where missed_count > 0
    on conflict (schedule_id, planned_at) where origin = 'planned' do nothing
), recorded as (
    insert into smart_schedule_occurrences
        (tenant_id, schedule_id, kind, origin, planned_at, schedule_version, state, reason, recorded_at, ended_at)
    select p.tenant_id, p.schedule_id, p.kind, 'planned', p.run_at, p.version,
           case when busy then 'skipped' else 'recorded' end,
           case when busy then 'previous_unfinished' end, now(), case when busy then now() end
    from plan p
    cross join lateral (
        select exists (
            select from smart_schedule_occurrences a
            where a.schedule_id = p.schedule_id and a.state in ('running', 'reconciling', 'cancelling')
        ) as busy
    ) b
    where p.run_at is not null
    on conflict (schedule_id, planned_at) where origin = 'planned' do nothing
    returning id, schedule_id, kind, state
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params)
    select now(), p.tenant_id, p.policy_id, 'warning', 'runs_missed',
           jsonb_build_object('schedule_id', p.schedule_id, 'count', p.missed_count, 'from', p.missed_from)
    from plan p where p.missed_count > 0
    union all
    select now(), p.tenant_id, p.policy_id, 'warning', 'run_skipped',
           jsonb_build_object('schedule_id', p.schedule_id, 'reason', 'previous_unfinished', 'planned_at', p.run_at)
    from recorded r join plan p using (schedule_id) where r.state = 'skipped'
)
select kind, json_agg(id order by id) as ids from recorded where state = 'recorded' group by kind

-- name: mark_broken
-- A stored rule that cannot be read stops only its own schedule, visibly.
with broken as (
    update smart_schedule_schedules set broken = :cause, updated_at = now() where id = any (:schedule_ids::bigint[])
    returning id, tenant_id, policy_id
)
insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params)
select now(), tenant_id, policy_id, 'error', 'schedule_broken',
       jsonb_build_object('schedule_id', id, 'cause', :cause::text)
from broken

-- name: close_unbegun
-- Occurrences that nobody began in time; a manual one waits longer, for its caller's retry.
with late as (
    select id from smart_schedule_occurrences
    where state = 'recorded'
      and recorded_at < now() - case origin when 'manual' then :manual_older_than::interval else :older_than::interval end
    order by id limit :page_size::integer for update skip locked
), closed as (
    update smart_schedule_occurrences o
    set state = 'skipped', reason = 'execution_not_started', ended_at = now()
    from late where o.id = late.id
    returning o.id, o.tenant_id, o.schedule_id, o.planned_at
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params)
    select now(), c.tenant_id, s.policy_id, 'warning', 'run_skipped',
           jsonb_build_object('schedule_id', s.id, 'reason', 'execution_not_started', 'planned_at', c.planned_at)
    from closed c join smart_schedule_schedules s on s.id = c.schedule_id
)
select count(*) as closed from closed

-- name: close_finished_ticks
-- A tick ends once none of its attempts waits to be sent; their jobs are followed on their own.
with done as (
    update smart_schedule_occurrences o
    set state = case o.state when 'cancelling' then 'cancelled' else 'succeeded' end, ended_at = now()
    where o.state in ('running', 'cancelling') and o.kind = 'policy_tick'
      and not exists (
          select from smart_schedule_attempts a
          where a.occurrence_id = o.id and a.state in ('prepared', 'dispatching'))
    returning 1
)
select count(*) as closed from done

-- name: unqueued_occurrences
-- Recorded and committed, but the message never went out: the row is the outbox. A manual one's went out so long ago that it
-- must have been lost; a planned one is closed sooner than that would help.
with waiting as (
    select id, kind from smart_schedule_occurrences
    where state = 'recorded'
      and (enqueued_at is null or (origin = 'manual' and enqueued_at < now() - :older_than::interval))
    order by id limit :page_size::integer
)
select kind, json_agg(id order by id) as ids from waiting group by kind

-- name: mark_occurrences_enqueued
-- Their messages went out; written after the sending, so that a crash between the two sends once more. By the least and the
-- greatest of them the planner sees how few they are, which a table without statistics would have it miss.
update smart_schedule_occurrences set enqueued_at = now()
where id = any (:ids::bigint[]) and id between :lowest::bigint and :highest::bigint

-- name: unqueued_attempts
-- Prepared attempts whose message never went out, or went out so long ago that it must have been lost.
select id from smart_schedule_attempts
where state = 'prepared' and valid_until > now()
  and coalesce(enqueued_at, '-infinity') < now() - :older_than::interval
order by prepared_at, id limit :page_size::integer

-- name: mark_attempts_enqueued
-- Likewise for attempts; one that has been begun meanwhile is left as it is.
update smart_schedule_attempts set enqueued_at = now() where id = any (:ids::uuid[]) and state = 'prepared'
