//! Many schedules on one instant.

use crate::bench::{Bench, Options, packed};
use crate::ticker::cron;
use crate::world::{SetClock, World};
use scheduler_core::ports::{CatalogStore, RunFilter, RunStore, ScheduleStore};
use scheduler_model::{Schedule, TenantId, Timestamp};
use scheduler_testkit::scanner::ScriptedScanner;
use scheduler_testkit::store::build::*;
use scheduler_worker::{Planner, Ticker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: i64 = 86_400;
/// 2025-01-01T00:00:00Z.
const BEGIN: i64 = 1_735_689_600;

#[tokio::test]
async fn p10_ten_thousand_schedules_on_one_instant_begin_as_their_tenants_have_room() {
    const COUNT: usize = 10_000;
    let world = World::new().await;
    let create = |number: usize| {
        let tenant = if number.is_multiple_of(100) { beta() } else { alpha() };
        world.store.create_schedule(Schedule { tenant, ..cron(&format!("s-{number:05}"), "0 0 * * *") })
    };
    futures::future::join_all((0..COUNT).map(create)).await;
    let clock = Arc::new(SetClock::default());
    clock.set(BEGIN + 1);
    let services = world.process(clock.clone(), 200);
    let mut ticker = Ticker::new(services.clone(), world.recorder.clone());
    ticker.look().await.unwrap();
    clock.set(BEGIN + DAY);
    // One tenant has 100 times as many as the other; both begin within the first looks, up to their limits.
    for _ in 0..COUNT.div_ceil(512) {
        ticker.look().await.unwrap();
    }
    let load = async || [world.store.load(&alpha()).await.unwrap().0, world.store.load(&beta()).await.unwrap().0];
    assert_eq!(load().await, [200, 100]);
    let mut planner = Planner::new(services);
    let syncs = world.store.wal_syncs();
    let mut looks = 0;
    while load().await != [0, 0] {
        planner.look().await.unwrap();
        ticker.look().await.unwrap();
        looks += 1;
        assert!(looks < 200, "it does not end");
    }
    // Neither beginning nor planning a run costs a sync of its own: that would be two for each. How many share one depends on how
    // fast they come.
    let syncs = world.store.wal_syncs() - syncs;
    assert!(syncs < COUNT as u64, "{syncs} syncs");
}

#[tokio::test(start_paused = true)]
async fn p07_p10_schedules_on_one_instant_do_not_flood_the_scanner() {
    const OF_TENANT: usize = 350;
    const SLOTS: u32 = 12;
    const RATE: u32 = 60;
    let mut options = Options::default();
    let settings = &mut options.settings;
    (settings.slots, settings.tenant_rate_per_second, settings.active_runs_per_tenant) = (SLOTS, RATE, 100_000);
    let scanner = ScriptedScanner::content().delayed(Duration::from_millis(80));
    let bench = Bench::start(scanner, options).await;
    let tenants: Vec<TenantId> = vec![alpha(), beta(), id("gamma")];
    for tenant in &tenants {
        bench.store.put_images(vec![packed(tenant, 0)]).await.unwrap();
        for number in 0..OF_TENANT {
            // Twenty seconds from now.
            let mut made = schedule(tenant, &format!("{tenant}-{number}"));
            made.spec.when_cron = Some("40 13 22 * * *".to_owned());
            bench.schedule(made).await;
        }
    }
    let stop = CancellationToken::new();
    let ticking = tokio::spawn(Ticker::new(bench.services.clone(), bench.fleet.clone()).run(stop.clone()));
    let all_ended = async || {
        let mut ended = 0;
        for tenant in &tenants {
            let runs = bench.store.runs(tenant, &RunFilter::default(), None, 1_000).await.unwrap().items;
            ended += runs.iter().filter(|run| run.stats.completed == 1).count();
        }
        ended == OF_TENANT * tenants.len()
    };
    bench.until("every run ends", all_ended).await;
    stop.cancel();
    ticking.await.unwrap();
    let calls = bench.scanner.reports();
    assert_eq!(calls.len(), OF_TENANT * tenants.len());
    assert!(bench.scanner.in_flight_max() <= SLOTS as usize, "{}", bench.scanner.in_flight_max());
    let mut of_tenant: BTreeMap<&TenantId, Vec<tokio::time::Instant>> = BTreeMap::new();
    for call in &calls {
        of_tenant.entry(&call.request.tenant).or_default().push(call.began);
    }
    for (tenant, mut begun) in of_tenant {
        begun.sort_unstable();
        // In every second no more than the rate and the burst of half a second.
        let most = RATE as usize * 3 / 2 + 1;
        let window = begun.windows(most).all(|some| some[most - 1] - some[0] >= Duration::from_millis(999));
        assert!(window, "{tenant}");
    }
    let instants: Vec<_> = bench.runs().await.iter().map(|run| run.reason.scheduled_for).collect();
    assert_eq!(instants, vec![Some(Timestamp::from_millis(1_700_000_020_000)); OF_TENANT]);
}
