//! The contracts of the store's ports: `CatalogStore`, `ScheduleStore`, `EventStore`, `RunStore`,
//! `ReportStore`, `TickStore` and `Housekeeping`.
//!
//! An adapter's test file says, for each of them, `scheduler_testkit::catalog_store_contract!(make)`, where `make` is an async
//! function that returns an empty store and whatever has to live as long as it does.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a case that fails has to stop its test")]

pub mod build;
pub mod catalog;
pub mod events;
pub mod keeping;
pub mod reports;
pub mod runs;
pub mod schedules;
pub mod ticks;

/// A test for each named case of a suite. Used by the suites' own macros.
#[doc(hidden)]
#[macro_export]
macro_rules! store_cases {
    ($make:path, $suite:ident: $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $case() {
                let (store, _kept) = $make().await;
                $crate::store::$suite::$case(&store).await;
            }
        )+
    };
}
