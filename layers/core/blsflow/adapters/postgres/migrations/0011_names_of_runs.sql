-- In whose name a conversation is held: whoever last said what is sent. Null is the schedule's creator, who said it first.

alter table smart_schedule_schedules add column runs_as text;
