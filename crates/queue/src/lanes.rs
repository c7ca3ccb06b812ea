//! One value for each lane.

use scheduler_model::Lane;

#[derive(Debug, Default)]
pub(crate) struct PerLane<T> {
    kev: T,
    critical: T,
    normal: T,
    backlog: T,
}

impl<T> PerLane<T> {
    pub(crate) fn of(make: impl Fn() -> T) -> Self {
        Self { kev: make(), critical: make(), normal: make(), backlog: make() }
    }

    pub(crate) fn get(&self, lane: Lane) -> &T {
        match lane {
            Lane::Kev => &self.kev,
            Lane::Critical => &self.critical,
            Lane::Normal => &self.normal,
            Lane::Backlog => &self.backlog,
        }
    }

    pub(crate) fn get_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Kev => &mut self.kev,
            Lane::Critical => &mut self.critical,
            Lane::Normal => &mut self.normal,
            Lane::Backlog => &mut self.backlog,
        }
    }
}
