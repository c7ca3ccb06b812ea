//! A year of 200 schedules over 25 zones: two tickers whose clocks differ by up to two minutes, restarts, downtimes, exports,
//! runs that outlast the next instant.

use crate::world::{SetClock, World};
use chrono::{DateTime, Datelike, NaiveDate, Offset, TimeZone, Weekday};
use chrono_tz::Tz;
use futures::FutureExt;
use scheduler_core::ports::{CatalogStore, Claim, EventStore, RunFilter, RunStore, ScheduleStore, TickStore};
use scheduler_model::{
    CatalogComponent, ChangedKey, Export, ExportId, Image, Misfire, OutcomeResult, Overlap, Priority, Run, RunId,
    Schedule, Scope, Selection, SkipReason, Source, Timestamp, Trigger,
};
use scheduler_testkit::store::build::*;
use scheduler_worker::{Planner, Services, Ticker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DAY: i64 = 86_400;
/// 2025-01-01T00:00:00Z.
const BEGIN: i64 = 1_735_689_600;
const END: i64 = BEGIN + 365 * DAY;
const WITH_IMAGES: usize = 12;
const IMAGES: usize = 5;

const ZONES: [&str; 25] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Sofia",
    "Europe/Lisbon",
    "Europe/Dublin",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/St_Johns",
    "America/Havana",
    "America/Mexico_City",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Shanghai",
    "Asia/Beirut",
    "Asia/Tehran",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Africa/Cairo",
    "Africa/Casablanca",
];

/// An expression, and when it matches on a wall clock: said twice, so that neither is taken from the other.
struct Form {
    expression: &'static str,
    day: fn(NaiveDate) -> bool,
    times: &'static [(u32, u32)],
    /// Whether both passes of a repeated time count, and nothing of a missing one.
    is_wildcard: bool,
}

const FORMS: [Form; 8] = [
    fixed("30 2 1 */2 *", |date| date.day() == 1 && date.month() % 2 == 1, &[(2, 30)]),
    fixed("0 2 15 3,9 *", |date| date.day() == 15 && [3, 9].contains(&date.month()), &[(2, 0)]),
    fixed("0 15 0 L * ?", |date| date.succ_opt().unwrap().day() == 1, &[(0, 15)]),
    fixed(
        "0 0 1 ? 1,4,7,10 SUN#2",
        |date| is_sunday(date) && date.month() % 3 == 1 && date.day().div_ceil(7) == 2,
        &[(1, 0)],
    ),
    fixed("0 3 10 */2 *", |date| date.day() == 10 && date.month() % 2 == 1, &[(3, 0)]),
    fixed("45 23 28 3,10 *", |date| date.day() == 28 && [3, 10].contains(&date.month()), &[(23, 45)]),
    Form {
        expression: "*/30 2 * 3,4,9-11 SUN",
        day: |date| is_sunday(date) && [3, 4, 9, 10, 11].contains(&date.month()),
        times: &[(2, 0), (2, 30)],
        is_wildcard: true,
    },
    fixed(
        "0,45 1-3 * 3,4,9-11 SUN",
        |date| is_sunday(date) && [3, 4, 9, 10, 11].contains(&date.month()),
        &[(1, 0), (1, 45), (2, 0), (2, 45), (3, 0), (3, 45)],
    ),
];

const DAILY: Form = fixed("7 2 * * *", |_| true, &[(2, 7)]);
const WEEKLY: Form = fixed("14 2 * * SUN", is_sunday, &[(2, 14)]);

const fn fixed(expression: &'static str, day: fn(NaiveDate) -> bool, times: &'static [(u32, u32)]) -> Form {
    Form { expression, day, times, is_wildcard: false }
}

fn is_sunday(date: NaiveDate) -> bool {
    date.weekday() == Weekday::Sun
}

/// The form of a schedule, by its number: a few are busy, most are seldom due.
fn form(number: usize) -> &'static Form {
    match number {
        0..3 => &DAILY,
        3..32 => &WEEKLY,
        _ => &FORMS[number % FORMS.len()],
    }
}

/// Every instant of a schedule in the year, by a walk over the minutes around each time that matches on the wall.
fn instants(number: usize) -> Vec<i64> {
    let (form, zone): (_, Tz) = (form(number), ZONES[number % ZONES.len()].parse().unwrap());
    let local = |minute: i64| zone.from_utc_datetime(&DateTime::from_timestamp(minute * 60, 0).unwrap().naive_utc());
    let first = DateTime::from_timestamp(BEGIN, 0).unwrap().date_naive();
    let mut found = BTreeSet::new();
    for date in first.pred_opt().unwrap().iter_days().take(368).filter(|date| (form.day)(*date)) {
        for (hour, minute) in form.times {
            let wall = date.and_hms_opt(*hour, *minute, 0).unwrap();
            let about = wall.and_utc().timestamp() / 60;
            let offset = i64::from(local(about).offset().fix().local_minus_utc()) / 60;
            let around = about - offset - 240..about - offset + 240;
            let same: Vec<i64> = around.clone().filter(|minute| local(*minute).naive_local() == wall).collect();
            let later = || around.clone().find(|minute| local(*minute).naive_local() > wall);
            match (form.is_wildcard, same.first()) {
                (true, _) => found.extend(same),
                (false, Some(first)) => drop(found.insert(*first)),
                (false, None) => found.extend(later()),
            }
        }
    }
    found.into_iter().map(|minute| minute * 60).filter(|instant| (BEGIN + 1..END).contains(instant)).collect()
}

/// A small generator, so that a seed is the whole story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % sides.unsigned_abs()).unwrap()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Down,
    Up,
    RunEnds(RunId),
    Export(usize),
    Look,
}

fn schedules() -> Vec<Schedule> {
    let made = (0..200).map(|number| {
        let mut made = schedule(&alpha(), &format!("s-{number:03}"));
        let spec = &mut made.spec;
        spec.timezone = ZONES[number % ZONES.len()].to_owned();
        spec.misfire = if number % 3 == 2 { Misfire::Skip } else { Misfire::Once };
        spec.jitter_seconds = if number % 20 == 19 { 100 } else { 0 };
        spec.selection =
            Selection { scope: Scope::ByNamespace, namespaces: vec!["none".into()], ..Selection::default() };
        spec.when_cron = Some(form(number).expression.to_owned());
        if number < WITH_IMAGES {
            spec.overlap = [Overlap::Queue, Overlap::Skip, Overlap::Replace][number % 3];
            spec.selection = Selection::default();
            spec.on_events = vec![Source::Feedser];
        }
        (made.ticks_from, made.created_at) = (Some(at_second(BEGIN)), at_second(BEGIN));
        made
    });
    made.collect()
}

/// An image with a package of its own.
fn packed(number: usize) -> Image {
    let package = CatalogComponent { purl: format!("pkg:npm/k{number}@1"), source: None };
    Image { components: vec![package], ..image(&alpha(), number) }
}

/// The changed key of an export: that of one image.
fn key_of(export: usize) -> ChangedKey {
    let key = format!("pkg:npm/k{}", export % IMAGES);
    ChangedKey { key, priority: Priority::Normal, subcomponent: None, affected: Vec::new() }
}

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

/// Downtimes that begin and end when no instant is near, so that it is clear what they miss.
fn downtimes(dice: &mut Dice, all: &BTreeSet<i64>) -> Vec<(i64, i64)> {
    let clear = |mut second: i64| {
        while all.range(second - 400..second + 400).next().is_some() {
            second += 60;
        }
        second
    };
    (1..=8)
        .map(|number| {
            let from = clear(BEGIN + number * 40 * DAY + dice.roll(10 * DAY));
            (from, clear(from + 3600 + dice.roll(9 * DAY)))
        })
        .collect()
}

/// The runs of a schedule that no run of its own ever holds up: instant and whether it makes up for others.
fn expected(schedule: &Schedule, instants: &[i64], downtimes: &[(i64, i64)]) -> Vec<(i64, bool)> {
    let (mut runs, mut missed) = (Vec::new(), BTreeMap::new());
    for &instant in instants {
        match downtimes.iter().find(|(from, to)| (*from..*to).contains(&instant)) {
            None => runs.push((instant, false)),
            Some((from, _)) => drop(missed.insert(*from, (instant, true))),
        }
    }
    if schedule.spec.misfire == Misfire::Once {
        runs.extend(missed.into_values());
    }
    runs.sort_unstable();
    runs
}

struct Year {
    world: World,
    dice: Dice,
    clocks: [Arc<SetClock>; 2],
    tickers: Vec<Ticker>,
    planner: Planner,
    processes: [Arc<Services>; 2],
    agenda: BTreeSet<(i64, Event)>,
    ending: BTreeSet<RunId>,
    up: bool,
    images: Vec<Schedule>,
}

impl Year {
    fn start(&mut self) {
        self.processes = self.clocks.clone().map(|clock| self.world.process(clock, 100));
        let recorder = self.world.recorder.clone();
        self.tickers = self.processes.iter().map(|services| Ticker::new(services.clone(), recorder.clone())).collect();
        self.planner = Planner::new(self.processes[0].clone());
    }

    async fn happen(&mut self, now: i64, event: Event) {
        // The first clock is ahead, the second behind, never the same for long.
        // At the end of the year they stop, so that what goes then ends and nothing more comes.
        let shown = now.min(END);
        self.clocks[0].set(shown + 30 + now % 31);
        self.clocks[1].set(shown - now % 61);
        match &event {
            Event::Down => self.up = false,
            Event::Up => {
                self.up = true;
                self.start();
            }
            Event::RunEnds(run) => self.end(run, now).await,
            Event::Export(number) => {
                let name = format!("e-{number:04}");
                let export = Export { received_at: at_second(now), keys: vec![key_of(*number)], ..export(&name, "1") };
                self.world.store.accept(export, None, 1000).await.unwrap();
            }
            Event::Look => {}
        }
        if !self.up {
            return;
        }
        if self.dice.roll(200) == 0 {
            self.start();
        }
        // Whoever looks first decides; then runs are planned; then what waited for a run that ended at once looks again.
        let mut planned = false;
        loop {
            for (ticker, services) in self.tickers.iter_mut().zip(&self.processes) {
                // At once, when it says so: what another one has moved is read again and decided in the next look.
                while ticker.look().await.unwrap() <= services.clock.now() {}
            }
            let rung = self.processes.iter().any(|services| services.planner_bell.notified().now_or_never().is_some());
            if !rung && (planned || event == Event::Look) {
                break;
            }
            self.planner.look().await.unwrap();
            planned = true;
        }
        if !planned {
            return;
        }
        for segment in self.world.store.open_segments().await.unwrap() {
            if self.ending.insert(segment.run.clone()) {
                let most = if self.dice.roll(2) == 0 { 2 * 3600 } else { 40 * 3600 };
                let lasts = 600 + self.dice.roll(most);
                self.agenda.insert((now + lasts, Event::RunEnds(segment.run)));
            }
        }
        for (_, run) in self.world.recorder.0.lock().drain(..) {
            self.agenda.insert((now + 240, Event::RunEnds(run)));
        }
        for schedule in &self.images {
            let live = self.world.store.live_runs(&schedule.tenant, &schedule.id).await.unwrap();
            assert!(live.len() <= 1, "runs beside each other: {live:?}");
        }
    }

    async fn end(&self, id: &RunId, now: i64) {
        let store = &self.world.store;
        let run = store.run(&alpha(), id).await.unwrap().unwrap();
        if run.state.is_ended() {
            return;
        }
        if run.cancel_requested_at.is_some() {
            store.skip_rest(&alpha(), id, SkipReason::Cancelled, at_second(now)).await.unwrap();
            return;
        }
        for segment in store.open_segments().await.unwrap().into_iter().filter(|segment| segment.run == *id) {
            let Claim { run, segment: claimed, .. } = store.claim(&segment.id, 1).await.unwrap().unwrap();
            let outcomes = claimed.images.iter().map(|image| {
                let mut write = outcome(&run, 1, reported(0));
                write.outcome.digest = image.digest.clone();
                write
            });
            store.write_outcomes(&segment.id, 1, outcomes.collect(), at_second(now), false).await.unwrap();
        }
    }

    /// No key is lost: a run of exports has asked about the images of all their keys and no other.
    async fn check_keys(&self, runs: &[Run]) {
        for run in runs.iter().filter(|run| run.trigger.is_event()) {
            let number = |export: &ExportId| export.as_str()[2..].parse::<usize>().unwrap();
            let expected: BTreeSet<_> = run.reason.export_ids.iter().map(|e| digest(number(e) % IMAGES)).collect();
            let outcomes = self.world.store.outcomes(&run.id, None, None, 100).await.unwrap().items;
            let asked: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.digest.clone()).collect();
            assert_eq!(asked, expected, "{run:?}");
            assert!(outcomes.iter().all(|outcome| matches!(outcome.result, OutcomeResult::Reported { .. })));
        }
    }

    async fn runs(&self, schedule: &Schedule) -> Vec<Run> {
        let filter = RunFilter { schedule: Some(schedule.id.clone()), ..RunFilter::default() };
        let (mut runs, mut after) = (Vec::new(), None);
        loop {
            let page = self.world.store.runs(&schedule.tenant, &filter, after.as_deref(), 500).await.unwrap();
            runs.extend(page.items);
            after = page.next;
            if after.is_none() {
                return runs;
            }
        }
    }
}

#[tokio::test]
async fn p03_a_year_of_instants_and_exports_gives_each_its_run_once() {
    let world = World::new().await;
    world.store.put_images((0..IMAGES).map(packed).collect()).await.unwrap();
    let schedules = schedules();
    for schedule in &schedules {
        world.store.create_schedule(schedule.clone()).await.unwrap();
    }
    let mut dice = Dice(0x2025);
    let instants: Vec<Vec<i64>> = (0..schedules.len()).map(instants).collect();
    let all: BTreeSet<i64> = instants.iter().flatten().copied().collect();
    let downtimes = downtimes(&mut dice, &all);
    let mut agenda: BTreeSet<(i64, Event)> = BTreeSet::new();
    for (from, to) in &downtimes {
        agenda.extend([(*from, Event::Down), (*to, Event::Up)]);
    }
    for (schedule, instants) in schedules.iter().zip(&instants) {
        let offsets: &[i64] =
            if schedule.spec.jitter_seconds > 0 { &[-30, -5, 20, 45, 70, 95, 120] } else { &[-30, 60] };
        agenda.extend(instants.iter().flat_map(|i| offsets.iter().map(move |by| (i + by, Event::Look))));
    }
    let exports = 80;
    for number in 0..exports {
        let mut second = BEGIN + dice.roll(365 * DAY);
        while let Some((_, to)) = downtimes.iter().find(|(from, to)| (*from..=*to).contains(&second)) {
            second = to + 1;
        }
        agenda.insert((second, Event::Export(number)));
    }
    let clocks = [Arc::new(SetClock::default()), Arc::new(SetClock::default())];
    let processes = clocks.clone().map(|clock| world.process(clock, 100));
    let planner = Planner::new(processes[0].clone());
    let with_images = schedules[..WITH_IMAGES].to_vec();
    let mut year = Year {
        world,
        dice,
        clocks,
        tickers: Vec::new(),
        planner,
        processes,
        agenda,
        ending: BTreeSet::new(),
        up: true,
        images: with_images,
    };
    year.start();
    while let Some((now, event)) = year.agenda.pop_first() {
        year.happen(now, event).await;
    }

    let mut met = BTreeMap::new();
    for (number, schedule) in schedules.iter().enumerate() {
        let runs = year.runs(schedule).await;
        assert!(runs.iter().all(|run| run.state.is_ended()), "every run ends");
        let state = year.world.store.ticks(&[(alpha(), schedule.id.clone())]).await.unwrap().pop().flatten().unwrap();
        assert_eq!(state.waiting, None, "nothing is left waiting");
        let by_clock = runs.iter().filter(|run| run.trigger == Trigger::Cron);
        let mut found: Vec<(i64, bool)> =
            by_clock.map(|run| (run.reason.scheduled_for.unwrap().seconds(), run.reason.catch_up)).collect();
        found.retain(|(instant, _)| *instant < END);
        found.sort_unstable();
        if number >= WITH_IMAGES {
            assert_eq!(
                found,
                expected(schedule, &instants[number], &downtimes),
                "{:?} {}",
                schedule.spec.when_cron,
                schedule.spec.timezone
            );
            continue;
        }
        let of_schedule: BTreeSet<i64> = instants[number].iter().copied().collect();
        let distinct: BTreeSet<i64> = found.iter().map(|(instant, _)| *instant).collect();
        assert!(distinct.len() == found.len() && distinct.is_subset(&of_schedule), "each its own instant, once");
        let mut heard: Vec<_> = runs.iter().flat_map(|run| run.reason.export_ids.clone()).collect();
        heard.sort_unstable();
        let sent: Vec<_> = (0..exports).map(|number| id(&format!("e-{number:04}"))).collect();
        assert_eq!(heard, sent, "every export in one run of every schedule that hears it");
        year.check_keys(&runs).await;
        let cancelled = runs.iter().filter(|run| run.state == scheduler_model::RunState::Cancelled);
        assert!(cancelled.clone().all(|run| !run.trigger.is_event()), "no run of an export is replaced");
        let tally: &mut (usize, usize, usize) = met.entry(format!("{:?}", schedule.spec.overlap)).or_default();
        tally.0 += of_schedule.len() - found.len();
        tally.1 += found.iter().filter(|(_, catch_up)| *catch_up).count();
        tally.2 += cancelled.count();
    }
    let store = &year.world.store;
    assert!(store.planning().await.unwrap().is_empty() && store.open_segments().await.unwrap().is_empty());
    assert!(store.waiting().await.unwrap().is_empty() && store.unplanned_batches().await.unwrap().is_empty());
    assert!(store.unbatched(Source::Feedser).await.unwrap().is_empty());
    // The year was one in which runs met: otherwise it shows nothing.
    assert!(met["Queue"].1 > 0 && met["Queue"].2 == 0, "{met:?}");
    assert!(met["Skip"].0 > met["Queue"].0 && met["Skip"].2 == 0, "{met:?}");
    assert!(met["Replace"].2 > 0, "{met:?}");
}
