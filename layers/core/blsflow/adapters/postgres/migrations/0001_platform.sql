-- Tables that other services own and this product only reads. Where those services share our database the tables
-- are already there and this migration leaves them as they are; a deployment that stands alone gets them here.

create table if not exists clusters (
    id          bigint primary key,
    tenant_id   text not null,
    name        text not null,
    time_zone   text not null                      -- IANA name; checked when read, a bad one holds only this cluster
);

create table if not exists machine_models (
    model               text primary key,
    algorithm           text not null,
    nameplate_hashrate_hs double precision not null,
    nameplate_power_w   double precision not null
);

create table if not exists machines (
    id            bigint primary key,
    tenant_id     text not null,
    cluster_id    bigint not null references clusters (id),
    model         text not null,
    name          text not null,
    operator_hold boolean not null default false   -- a human asked that automation keep its hands off
);
create index if not exists machines_by_cluster on machines (cluster_id, id);
create index if not exists machines_by_tenant on machines (tenant_id, id);

create table if not exists projects (
    id         bigint primary key,
    tenant_id  text not null,
    name       text not null,
    coin       text not null,
    price_key  text not null,                      -- the key under which the profit feed knows it
    algorithm  text not null,
    pool       text not null default ''
);

create table if not exists project_run_configurations (
    id         bigint primary key,
    project_id bigint not null references projects (id),
    model      text not null,
    runnable   boolean not null,
    unique (project_id, model)
);

create table if not exists cluster_tariffs (
    id         bigint primary key,
    cluster_id bigint not null references clusters (id),
    name       text not null,
    currency   text not null default 'CNY',
    valid_from timestamptz,                        -- null: since ever
    valid_to   timestamptz,                        -- null: open ended
    holidays        date[] not null default '{}',
    make_up_workdays date[] not null default '{}'
);
create index if not exists cluster_tariffs_by_cluster on cluster_tariffs (cluster_id);

create table if not exists cluster_tariff_periods (
    id         bigint primary key,
    tariff_id  bigint not null references cluster_tariffs (id),
    name       text not null,
    priority   integer not null default 0,         -- the higher one overrides: flat < valley < peak < sharp
    starts     text not null,                      -- 'HH:MM' or 'HH:MM:SS' of the cluster's wall clock
    ends       text not null,                      -- likewise; '24:00' allowed; at or before starts: crosses midnight
    weekdays   integer[],                          -- ISO, 1 = Monday; null: every day
    day_types  text[],                             -- workday, weekend, holiday; null: every type
    months     integer[],                          -- 1..12; null: every month
    season_start text,                             -- 'MM-DD', first day; with season_end; may cross the year's end
    season_end   text,                             -- 'MM-DD', last day
    price_per_kwh numeric not null                 -- in the tariff's currency; negative is income
);
create index if not exists cluster_tariff_periods_by_tariff on cluster_tariff_periods (tariff_id);

create table if not exists machine_mining_runtime (
    machine_id    bigint primary key,
    status        text not null,                   -- mining, stopped, off
    project_id    bigint,
    hashrate_hs   double precision,                -- null: not reported (never 0 by default)
    project_since timestamptz,
    reported_at   timestamptz not null
) with (fillfactor = 70);

create table if not exists metric_powers (
    machine_id  bigint not null,
    measured_at timestamptz not null,
    power_w     double precision,
    primary key (machine_id, measured_at)
);
