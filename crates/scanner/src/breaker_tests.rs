use super::*;
use proptest::prelude::*;

const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// A breaker with a clock of its own.
struct Bench {
    breaker: Breaker,
    now: Instant,
    /// Permits that were asked for.
    asked: u32,
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

impl Bench {
    fn new() -> Self {
        Self { breaker: Breaker::new(BreakerLimits::for_calls_of(CALL_TIMEOUT)), now: Instant::now(), asked: 0 }
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    /// A call of a tenant that has not probed before.
    fn permit(&mut self) -> Permit {
        self.asked += 1;
        self.breaker.permit(&tenant(&format!("tenant-{}", self.asked)), self.now)
    }

    fn go(&mut self) -> Pass {
        match self.permit() {
            Permit::Go(pass) => pass,
            other => panic!("{other:?}"),
        }
    }

    fn probe(&mut self) -> Pass {
        match self.permit() {
            Permit::Probe(pass) => pass,
            other => panic!("{other:?}"),
        }
    }

    fn wait_of(&mut self) -> Duration {
        match self.permit() {
            Permit::WaitUntil(until) => until - self.now,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, pass: Pass, image: u8, end: CallEnd) -> bool {
        self.breaker.on_end(pass, &digest(image), end, self.now)
    }

    /// A call that begins and ends now.
    fn call(&mut self, image: u8, end: CallEnd) -> bool {
        let pass = self.go();
        self.end(pass, image, end)
    }

    fn opened() -> Self {
        let mut bench = Self::new();
        bench.call(0, CallEnd::Refused);
        bench
    }
}

fn digest(image: u8) -> ImageDigest {
    ImageDigest::of(&[image])
}

#[test]
fn a_refused_connection_opens_it_and_is_no_attempt() {
    let mut bench = Bench::new();
    assert!(!bench.call(1, CallEnd::Refused));
    assert!(bench.breaker.is_open());
}

#[test]
fn failures_open_it_after_five_in_a_row_over_two_images() {
    let check = |ends: &[(u8, CallEnd)], open: bool| {
        let mut bench = Bench::new();
        for (place, (image, end)) in ends.iter().enumerate() {
            assert!(!bench.breaker.is_open(), "opened before call {place} of {ends:?}");
            assert!(bench.call(*image, *end), "call {place} of {ends:?} is an attempt");
        }
        assert_eq!(bench.breaker.is_open(), open, "{ends:?}");
    };
    use CallEnd::{Answered, Failed, Unclear};
    check(&[(1, Failed), (2, Failed), (3, Failed), (4, Failed)], false);
    check(&[(1, Failed), (2, Failed), (3, Failed), (4, Failed), (5, Failed)], true);
    check(&[(1, Failed), (1, Failed), (1, Failed), (1, Failed), (2, Failed)], true);
    check(&[(1, Failed); 50], false);
    check(&[(1, Failed), (1, Failed), (1, Failed), (1, Failed), (1, Failed), (1, Failed), (2, Failed)], true);
    check(&[(1, Failed), (2, Failed), (3, Failed), (4, Failed), (5, Answered), (6, Failed)], false);
    check(&[(1, Failed), (2, Failed), (3, Failed), (4, Failed), (5, Unclear), (6, Failed)], true);
    check(&[(1, Unclear), (2, Unclear), (3, Unclear), (4, Unclear), (5, Unclear), (6, Unclear)], false);
}

#[test]
fn probes_go_one_at_a_time_at_doubling_waits() {
    let mut bench = Bench::opened();
    for expected in [200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        assert_eq!(bench.wait_of(), Duration::from_millis(expected));
        bench.wait_ms(expected - 1);
        assert_eq!(bench.wait_of(), Duration::from_millis(1));
        bench.wait_ms(1);
        let probe = bench.probe();
        assert!(bench.wait_of() > Duration::ZERO, "a second probe beside the first");
        assert!(!bench.end(probe, 1, CallEnd::Failed), "a failed probe is no attempt");
    }
}

#[test]
fn a_probe_that_is_answered_closes_it() {
    for end in [CallEnd::Answered, CallEnd::Unclear] {
        let mut bench = Bench::opened();
        bench.wait_ms(200);
        let probe = bench.probe();
        assert!(bench.end(probe, 1, end), "what was answered is an attempt");
        assert!(!bench.breaker.is_open());
        bench.call(1, CallEnd::Refused);
        assert_eq!(bench.wait_of(), Duration::from_millis(200), "waits begin anew");
    }
}

#[test]
fn a_probe_that_is_never_reported_is_forgotten() {
    let mut bench = Bench::opened();
    bench.wait_ms(200);
    let lost = bench.probe();
    bench.wait_ms(24_999);
    assert_eq!(bench.wait_of(), Duration::from_millis(1));
    bench.wait_ms(1);
    let second = bench.probe();
    assert!(!bench.end(lost, 1, CallEnd::Failed));
    assert!(bench.wait_of() > Duration::ZERO, "the second probe is still on its way");
    assert!(bench.end(second, 2, CallEnd::Answered));
    assert!(!bench.breaker.is_open());
}

#[test]
fn a_forgotten_probe_that_is_answered_closes_it_too() {
    let mut bench = Bench::opened();
    bench.wait_ms(200);
    let late = bench.probe();
    bench.wait_ms(30_000);
    assert!(bench.end(late, 1, CallEnd::Answered));
    assert!(!bench.breaker.is_open());
}

#[test]
fn a_call_from_before_the_opening_neither_counts_nor_closes() {
    let mut bench = Bench::new();
    let (failing, answered, late) = (bench.go(), bench.go(), bench.go());
    bench.call(1, CallEnd::Refused);
    assert!(!bench.end(failing, 2, CallEnd::Failed), "what fails while it is open is no attempt");
    assert!(bench.end(answered, 3, CallEnd::Answered));
    assert!(bench.breaker.is_open());
    bench.wait_ms(200);
    let probe = bench.probe();
    bench.end(probe, 4, CallEnd::Answered);
    assert!(!bench.end(late, 5, CallEnd::Refused), "it tells of the time before");
    assert!(!bench.breaker.is_open());
}

#[test]
fn the_end_of_a_call_is_sorted() {
    let check = |class: ErrorClass, refused: bool, expected: CallEnd| {
        let error =
            ScannerError { class, message: String::new(), retryable: true, retry_after: None, refused, source: None };
        assert_eq!(CallEnd::of::<()>(&Err(error)), expected, "{class:?}");
    };
    assert_eq!(CallEnd::of(&Ok(())), CallEnd::Answered);
    check(ErrorClass::Connect, true, CallEnd::Refused);
    check(ErrorClass::Connect, false, CallEnd::Failed);
    check(ErrorClass::Timeout, false, CallEnd::Failed);
    check(ErrorClass::ServerError, false, CallEnd::Failed);
    check(ErrorClass::Rejected, false, CallEnd::Answered);
    check(ErrorClass::Throttled, false, CallEnd::Unclear);
    check(ErrorClass::BadResponse, false, CallEnd::Unclear);
}

#[derive(Debug, Clone)]
enum Step {
    Ask,
    End { which: usize, image: u8, end: CallEnd },
    Lose { which: usize },
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        3 => Just(CallEnd::Failed),
        2 => Just(CallEnd::Refused),
        2 => Just(CallEnd::Answered),
        1 => Just(CallEnd::Unclear),
    ];
    prop_oneof![
        4 => Just(Step::Ask),
        4 => (any::<usize>(), 0_u8..4, end).prop_map(|(which, image, end)| Step::End { which, image, end }),
        1 => any::<usize>().prop_map(|which| Step::Lose { which }),
        3 => (0_u64..8_000).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    /// SCN-5, whatever happens in whatever order.
    #[test]
    fn it_probes_alone_while_open_and_is_never_stuck(steps in proptest::collection::vec(step(), 0..200)) {
        let mut bench = Bench::new();
        let mut under_way: Vec<Pass> = Vec::new();
        let mut probe: Option<(u64, Instant)> = None;
        for step in steps {
            match step {
                Step::Ask => {
                    let open = bench.breaker.is_open();
                    match bench.permit() {
                        Permit::Go(pass) => {
                            prop_assert!(!open, "a call while it is open");
                            under_way.push(pass);
                        }
                        Permit::Probe(pass) => {
                            prop_assert!(open, "a probe while it is closed");
                            prop_assert!(probe.is_none_or(|(_, until)| bench.now >= until), "two probes at once");
                            let until = bench.now + bench.breaker.limits.probe_expires_after;
                            probe = pass.probe.map(|number| (number, until));
                            under_way.push(pass);
                        }
                        Permit::WaitUntil(until) => {
                            prop_assert!(open, "a wait while it is closed");
                            prop_assert!(until > bench.now, "a wait for the past");
                        }
                    }
                }
                Step::End { which, image, end } if !under_way.is_empty() => {
                    let pass = under_way.swap_remove(which % under_way.len());
                    let (was_open, is_probe) = (bench.breaker.is_open(), pass.probe.is_some());
                    let of_this_era = pass.era == bench.breaker.era;
                    if of_this_era && probe.is_some_and(|(number, _)| pass.probe == Some(number)) {
                        probe = None;
                    }
                    let counts = bench.end(pass, image, end);
                    let failed = matches!(end, CallEnd::Failed | CallEnd::Refused);
                    prop_assert!(!(was_open && failed && counts), "an attempt although it was open");
                    prop_assert!(!(end == CallEnd::Refused && counts), "a refused call as an attempt");
                    prop_assert!(failed || counts, "what was answered is an attempt");
                    prop_assert!(was_open || !failed || end == CallEnd::Failed || !of_this_era || bench.breaker.is_open());
                    prop_assert!(!was_open || bench.breaker.is_open() || (is_probe && !failed), "closed by another than a probe");
                    if !bench.breaker.is_open() {
                        probe = None;
                    }
                }
                Step::Lose { which } if !under_way.is_empty() => {
                    under_way.swap_remove(which % under_way.len());
                }
                Step::End { .. } | Step::Lose { .. } => {}
                Step::Wait { ms } => bench.wait_ms(ms),
            }
        }
        // Whatever was lost: following its waits leads to a permit within bounded time, and an answer closes it.
        let limits = bench.breaker.limits.clone();
        let deadline = bench.now + limits.probe_expires_after + limits.probe_wait_max;
        let pass = loop {
            match bench.permit() {
                Permit::Go(pass) | Permit::Probe(pass) => break pass,
                Permit::WaitUntil(until) => bench.now = until,
            }
            prop_assert!(bench.now <= deadline, "stuck");
        };
        bench.end(pass, 0, CallEnd::Answered);
        prop_assert!(!bench.breaker.is_open());
    }
}

/// Lets probes of images in turn fail, with a ping beside each, until the breaker closes or the time is over; gives the time.
fn probes_fail(bench: &mut Bench, images: &[u8], pings: impl Fn(u32) -> bool, for_s: u64) -> Option<Duration> {
    let began = bench.now;
    for (count, image) in (0..).zip(images.iter().cycle()) {
        if bench.now - began >= Duration::from_secs(for_s) {
            return None;
        }
        let wait = bench.wait_of();
        bench.now += wait;
        let probe = bench.probe();
        assert!(probe.is_probe());
        bench.breaker.on_ping(&probe, &digest(*image), pings(count), bench.now);
        assert!(!bench.end(probe, *image, CallEnd::Failed), "what fails while it is open is no attempt");
        if !bench.breaker.is_open() {
            return Some(bench.now - began);
        }
    }
    None
}

#[test]
fn images_that_always_fail_are_blamed_when_the_scanner_answers_pings() {
    let mut bench = Bench::opened();
    let took = probes_fail(&mut bench, &[1, 2], |_| true, 1_000).unwrap();
    assert!((120..130).contains(&took.as_secs()), "{took:?}");
    for _ in 0..20 {
        for image in [1, 2] {
            assert!(bench.call(image, CallEnd::Failed), "their attempts run out");
        }
    }
    assert!(!bench.breaker.is_open());
    for image in [3, 4, 3, 4, 3] {
        bench.call(image, CallEnd::Failed);
    }
    assert!(bench.breaker.is_open(), "others are not blamed");
}

#[test]
fn a_blamed_image_that_is_answered_is_cleared() {
    let mut bench = Bench::opened();
    probes_fail(&mut bench, &[1, 2], |_| true, 1_000).unwrap();
    for image in [1, 2] {
        bench.call(image, CallEnd::Answered);
    }
    for image in [1, 2, 1, 2, 1] {
        bench.call(image, CallEnd::Failed);
    }
    assert!(bench.breaker.is_open());
}

#[test]
fn nobody_is_blamed_while_pings_fail_too() {
    assert_eq!(probes_fail(&mut Bench::opened(), &[1, 2], |_| false, 4_000), None);
    assert_eq!(probes_fail(&mut Bench::opened(), &[1, 2], |count| count % 20 != 0, 4_000), None);
}

#[test]
fn a_probe_that_is_given_back_lets_another_one_go_at_once() {
    let mut bench = Bench::opened();
    bench.wait_ms(200);
    let probe = bench.probe();
    assert!(bench.breaker.still_lets(&probe));
    bench.breaker.give_back(&probe);
    let probe = bench.probe();
    bench.end(probe, 1, CallEnd::Answered);
    let pass = bench.go();
    bench.call(1, CallEnd::Refused);
    assert!(!bench.breaker.still_lets(&pass), "it opened since");
}

#[test]
fn pace_07_who_failed_a_probe_lets_others_go_first() {
    let mut bench = Bench::opened();
    let (failing, healthy) = (tenant("failing"), tenant("healthy"));
    bench.wait_ms(200);
    let Permit::Probe(probe) = bench.breaker.permit(&failing, bench.now) else { panic!("the first probe") };
    bench.end(probe, 1, CallEnd::Failed);
    bench.wait_ms(400);
    let Permit::WaitUntil(until) = bench.breaker.permit(&failing, bench.now) else { panic!("others first") };
    assert_eq!(until - bench.now, Duration::from_millis(200));
    let Permit::Probe(probe) = bench.breaker.permit(&healthy, bench.now) else { panic!("its turn") };
    bench.end(probe, 2, CallEnd::Answered);
    assert!(!bench.breaker.is_open());
    // Where there is nobody else, it goes on a little later.
    let mut bench = Bench::opened();
    bench.wait_ms(200);
    for wait in [400 + 200, 800 + 200] {
        let Permit::Probe(probe) = bench.breaker.permit(&failing, bench.now) else { panic!("alone") };
        bench.end(probe, 1, CallEnd::Failed);
        bench.wait_ms(wait);
    }
}
