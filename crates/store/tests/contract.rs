//! The contract suites on the embedded store.

#![expect(clippy::unwrap_used, reason = "a store that cannot be made has to stop the test")]

use scheduler_store::EmbeddedStore;
use tempfile::TempDir;

async fn make() -> (EmbeddedStore, TempDir) {
    let folder = TempDir::new().unwrap();
    (EmbeddedStore::open(folder.path()).unwrap(), folder)
}

mod catalog {
    scheduler_testkit::catalog_store_contract!(super::make);
}

mod schedules {
    scheduler_testkit::schedule_store_contract!(super::make);
}

mod events {
    scheduler_testkit::event_store_contract!(super::make);
}

mod runs {
    scheduler_testkit::run_store_contract!(super::make);
}

mod reports {
    scheduler_testkit::report_store_contract!(super::make);
}

mod ticks {
    scheduler_testkit::tick_store_contract!(super::make);
}

mod keeping {
    scheduler_testkit::housekeeping_contract!(super::make);
}
