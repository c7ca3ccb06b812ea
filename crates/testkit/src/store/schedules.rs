//! The contract of `ScheduleStore`.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::ports::{ScheduleFilter, ScheduleStore, StoreError};
use scheduler_model::{Schedule, Source};

/// One test for each case of the contract of `ScheduleStore`.
#[macro_export]
macro_rules! schedule_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, schedules:
            a_schedule_comes_back_to_its_tenant_only,
            a_name_is_taken_within_its_tenant,
            hook_15_of_simultaneous_equal_names_one_wins,
            an_update_needs_the_stored_version,
            a_new_name_frees_the_old_one,
            a_deleted_schedule_is_found_with_the_deleted_only,
            schedules_are_listed_by_id_and_filtered,
            subscribers_are_enabled_schedules_of_all_tenants,
        );
    };
}

fn names(schedules: &[Schedule]) -> Vec<&str> {
    schedules.iter().map(|schedule| schedule.spec.name.as_str()).collect()
}

fn taken<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::NameTaken { .. }))
}

pub async fn a_schedule_comes_back_to_its_tenant_only(store: &impl ScheduleStore) {
    let made = schedule(&alpha(), "nightly");
    store.create_schedule(made.clone()).await.unwrap();
    assert_eq!(store.schedule(&alpha(), &made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(store.schedule(&beta(), &made.id).await.unwrap(), None);
    assert!(matches!(store.create_schedule(made).await, Err(StoreError::Conflict { .. })));
}

pub async fn a_name_is_taken_within_its_tenant(store: &impl ScheduleStore) {
    store.create_schedule(schedule(&alpha(), "nightly")).await.unwrap();
    let mut other = schedule(&alpha(), "other");
    store.create_schedule(other.clone()).await.unwrap();
    other.spec.name = "nightly".to_owned();
    assert!(taken(store.update_schedule(other.clone(), 1).await));
    other.id = id("third");
    assert!(taken(store.create_schedule(other.clone()).await));
    assert_eq!(store.schedule(&alpha(), &other.id).await.unwrap(), None, "a refused one leaves nothing");
    other.tenant = beta();
    store.create_schedule(other).await.unwrap();
}

pub async fn hook_15_of_simultaneous_equal_names_one_wins(store: &impl ScheduleStore) {
    let create = |name: &str| store.create_schedule(Schedule { id: id(name), ..schedule(&alpha(), "nightly") });
    let (a, b, c) = tokio::join!(create("a"), create("b"), create("c"));
    assert_eq!([a, b, c].into_iter().filter(Result::is_ok).count(), 1);
}

pub async fn an_update_needs_the_stored_version(store: &impl ScheduleStore) {
    let mut made = schedule(&alpha(), "nightly");
    store.create_schedule(made.clone()).await.unwrap();
    made.version = 2;
    made.spec.enabled = false;
    assert!(matches!(store.update_schedule(made.clone(), 2).await, Err(StoreError::Conflict { .. })));
    store.update_schedule(made.clone(), 1).await.unwrap();
    assert!(matches!(store.update_schedule(made.clone(), 1).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.schedule(&alpha(), &made.id).await.unwrap(), Some(made.clone()));
    made.tenant = beta();
    assert!(matches!(store.update_schedule(made, 2).await, Err(StoreError::NotFound { .. })));
}

pub async fn a_new_name_frees_the_old_one(store: &impl ScheduleStore) {
    let mut made = schedule(&alpha(), "nightly");
    store.create_schedule(made.clone()).await.unwrap();
    made.spec.name = "daily".to_owned();
    store.update_schedule(made, 1).await.unwrap();
    store.create_schedule(Schedule { id: id("other"), ..schedule(&alpha(), "nightly") }).await.unwrap();
    assert!(taken(store.create_schedule(schedule(&alpha(), "daily")).await));
}

pub async fn a_deleted_schedule_is_found_with_the_deleted_only(store: &impl ScheduleStore) {
    let mut made = schedule(&alpha(), "nightly");
    made.spec.when_cron = Some("0 2 * * *".to_owned());
    store.create_schedule(made.clone()).await.unwrap();
    made.deleted_at = Some(at(9));
    store.update_schedule(made.clone(), 1).await.unwrap();
    assert_eq!(store.schedule(&alpha(), &made.id).await.unwrap(), None);
    assert_eq!(store.schedule_with_deleted(&alpha(), &made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(store.schedule_with_deleted(&beta(), &made.id).await.unwrap(), None);
    assert!(store.schedules(&alpha(), &ScheduleFilter::default(), None, 9).await.unwrap().items.is_empty());
    assert!(matches!(store.update_schedule(made, 1).await, Err(StoreError::NotFound { .. })));
    store.create_schedule(Schedule { id: id("new"), ..schedule(&alpha(), "nightly") }).await.unwrap();
}

pub async fn schedules_are_listed_by_id_and_filtered(store: &impl ScheduleStore) {
    for name in ["d", "b", "a", "c"] {
        let mut made = schedule(&alpha(), name);
        made.spec.enabled = name != "b";
        store.create_schedule(made).await.unwrap();
    }
    store.create_schedule(schedule(&beta(), "bb")).await.unwrap();
    let all = ScheduleFilter::default();
    let first = store.schedules(&alpha(), &all, None, 3).await.unwrap();
    assert_eq!(names(&first.items), ["a", "b", "c"]);
    let second = store.schedules(&alpha(), &all, first.next.as_deref(), 3).await.unwrap();
    assert_eq!((names(&second.items), second.next), (vec!["d"], None));
    let enabled = ScheduleFilter { enabled: Some(true), name: None };
    assert_eq!(names(&store.schedules(&alpha(), &enabled, None, 9).await.unwrap().items), ["a", "c", "d"]);
    let named = ScheduleFilter { enabled: None, name: Some("b".to_owned()) };
    assert_eq!(names(&store.schedules(&alpha(), &named, None, 9).await.unwrap().items), ["b"]);
    assert!(matches!(store.schedules(&alpha(), &all, Some("\u{1}"), 9).await, Err(StoreError::BadCursor)));
}

pub async fn subscribers_are_enabled_schedules_of_all_tenants(store: &impl ScheduleStore) {
    for (tenant, name, enabled) in [(beta(), "x", true), (alpha(), "y", true), (alpha(), "off", false)] {
        let mut made = schedule(&tenant, name);
        made.spec.enabled = enabled;
        made.spec.on_events = vec![Source::Vexer];
        store.create_schedule(made).await.unwrap();
    }
    store.create_schedule(schedule(&alpha(), "by-hand")).await.unwrap();
    let hearing = store.subscribers(Source::Vexer).await.unwrap();
    assert_eq!(names(&hearing), ["y", "x"]);
    assert!(store.subscribers(Source::Feedser).await.unwrap().is_empty());
}
