-- name: claim_request
-- Who inserts the row carries the request out; everybody else waits for that transaction's end, and reads the row by a
-- statement that begins after it.
with claimed as (
    insert into smart_schedule_requests (tenant_id, key, fingerprint, made_by, made_at)
    values (:tenant_id, :key, :fingerprint, :by, now())
    on conflict (tenant_id, key) do nothing
    returning fingerprint, answer
)
select fingerprint, answer, true as is_ours from claimed
union all
select r.fingerprint, r.answer, false from smart_schedule_requests r
where r.tenant_id = :tenant_id and r.key = :key and not exists (select from claimed)

-- name: answer_request
-- What a request came to, in the form in which its repetitions will read it.
update smart_schedule_requests set answer = :answer::jsonb where tenant_id = :tenant_id and key = :key returning answer

-- name: prune_requests
-- Answers that nobody asks for again, a page at a time, oldest first.
delete from smart_schedule_requests r
using (select tenant_id, key from smart_schedule_requests
       where made_at < now() - :keep_for::interval order by made_at limit :page_size::integer) old
where r.tenant_id = old.tenant_id and r.key = old.key
