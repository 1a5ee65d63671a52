-- What the API does with policies and what ticks left behind: pages read by index, and batches ended unsent.

-- in the order of their times first: of an order by ids alone the primary key would be read through, past other policies' rows
create index smart_schedule_freezes_of_policy on smart_schedule_freezes (policy_id, frozen_at desc, id desc);
create index smart_schedule_ticks_of_policy on smart_schedule_ticks (policy_id, ticked_at desc, id desc);
-- the schedule under which an archived policy ticked
create index smart_schedule_schedules_by_policy on smart_schedule_schedules (policy_id, id desc) where policy_id is not null;

-- what is ended unsent becomes skip, with its reason; nothing else of a decision is a tenant's to change
grant update (action, reason) on smart_schedule_machine_decisions to blsflow_tenant;
