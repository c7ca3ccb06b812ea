//! Ten thousand schedules on one instant.

use crate::world::{SetClock, World};
use scheduler_core::ports::{RunStore, ScheduleStore};
use scheduler_model::Timestamp;
use scheduler_testkit::store::build::*;
use scheduler_worker::{Planner, Ticker};
use std::sync::Arc;

const DAY: i64 = 86_400;
/// 2025-01-01T00:00:00Z.
const BEGIN: i64 = 1_735_689_600;

#[tokio::test]
async fn p10_ten_thousand_schedules_on_one_instant_begin_as_their_tenants_have_room() {
    const COUNT: usize = 10_000;
    let world = World::new().await;
    let create = |number: usize| {
        let tenant = if number.is_multiple_of(100) { beta() } else { alpha() };
        let mut made = schedule(&tenant, &format!("s-{number:05}"));
        made.spec.when_cron = Some("0 0 * * *".to_owned());
        (made.ticks_from, made.created_at) =
            (Some(Timestamp::from_millis(BEGIN * 1000)), Timestamp::from_millis(BEGIN * 1000));
        world.store.create_schedule(made)
    };
    futures::future::join_all((0..COUNT).map(create)).await;
    let clock = Arc::new(SetClock::default());
    clock.set(BEGIN + 1);
    let services = world.process(clock.clone(), 200);
    let mut ticker = Ticker::new(services.clone(), world.recorder.clone());
    ticker.look().await.unwrap();
    clock.set(BEGIN + DAY);
    let began = tokio::time::Instant::now();
    // One tenant has 100 times as many as the other; both begin within the first looks, up to their limits.
    for _ in 0..COUNT.div_ceil(512) {
        ticker.look().await.unwrap();
    }
    let load = async || [world.store.load(&alpha()).await.unwrap().0, world.store.load(&beta()).await.unwrap().0];
    assert_eq!(load().await, [200, 100]);
    let mut planner = Planner::new(services);
    let mut looks = 0;
    while load().await != [0, 0] {
        planner.look().await.unwrap();
        ticker.look().await.unwrap();
        looks += 1;
        assert!(looks < 200, "it does not end");
    }
    eprintln!("{COUNT} schedules in {:?}", began.elapsed());
}
