//! How far a tenant's exports are planned, and which time no export spoke of.

use scheduler_model::{ExportHead, ExportId, RunId, Source, TenantId, Timestamp, Window};
use serde::{Deserialize, Serialize};

/// Holes that a cursor remembers; of more, the oldest go.
pub const HOLES_MAX: usize = 20;

/// A time between two windows that no export covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hole {
    /// The end of what was covered before it.
    pub from: Timestamp,
    /// Where coverage goes on.
    pub to: Timestamp,
    /// The run that found it.
    pub found_by: RunId,
}

/// Per tenant and source: the last export that a run has taken, and how far time is covered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// Whose.
    pub tenant: TenantId,
    /// Of which source.
    pub source: Source,
    /// The last planned export.
    pub export_id: ExportId,
    /// The latest end of a planned window; `None` as long as no export had one.
    pub window_end: Option<Timestamp>,
    /// When it moved last.
    pub moved_at: Timestamp,
    /// How many holes were found, ever.
    pub holes_found: u64,
    /// Those that are open still, the oldest first.
    pub holes: Vec<Hole>,
}

/// What moves a cursor: an export that a run takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The export.
    pub export_id: ExportId,
    /// The time it covers.
    pub window: Option<Window>,
}

impl From<&ExportHead> for Passed {
    fn from(export: &ExportHead) -> Self {
        Self { export_id: export.export_id.clone(), window: export.window.clone() }
    }
}

/// Moves a cursor over exports in the order in which they came. Their windows are laid out by time, so that only what none
/// of them covers is a hole; a window that comes late closes holes.
pub fn advance(
    before: Option<Cursor>,
    (tenant, source, run): (&TenantId, Source, &RunId),
    passed: &[Passed],
    now: Timestamp,
) -> Option<Cursor> {
    let Some(last) = passed.last() else { return before };
    let mut cursor = before.unwrap_or_else(|| Cursor {
        tenant: tenant.clone(),
        source,
        export_id: last.export_id.clone(),
        window_end: None,
        moved_at: now,
        holes_found: 0,
        holes: Vec::new(),
    });
    cursor.export_id = last.export_id.clone();
    cursor.moved_at = now;
    let mut windows: Vec<(Timestamp, Timestamp)> = passed
        .iter()
        .filter_map(|export| export.window.as_ref())
        .filter_map(|window| {
            let to = window.to.or(window.from)?;
            Some((window.from.unwrap_or(to).min(to), to))
        })
        .collect();
    windows.sort_unstable();
    for (from, to) in windows {
        cursor.holes = cursor.holes.into_iter().flat_map(|hole| without(hole, from, to)).collect();
        if let Some(end) = cursor.window_end
            && from > end
        {
            cursor.holes.push(Hole { from: end, to: from, found_by: run.clone() });
            cursor.holes_found += 1;
        }
        cursor.window_end = Some(cursor.window_end.map_or(to, |end| end.max(to)));
    }
    let surplus = cursor.holes.len().saturating_sub(HOLES_MAX);
    cursor.holes.drain(..surplus);
    Some(cursor)
}

/// What is left of a hole when a window covers a part of it.
fn without(hole: Hole, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Hole> {
    let before = Hole { to: hole.to.min(from), ..hole.clone() };
    let after = Hole { from: hole.from.max(to), ..hole };
    [before, after].into_iter().filter(|part| part.from < part.to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    fn passed(windows: &[(i64, i64)]) -> Vec<Passed> {
        let window = |&(from, to)| Passed {
            export_id: "e".parse().unwrap(),
            window: Some(Window { from: Some(at(from)), to: Some(at(to)) }),
        };
        windows.iter().map(window).collect()
    }

    fn walk(batches: &[Vec<(i64, i64)>]) -> Option<Cursor> {
        let (tenant, run) = ("t".parse::<TenantId>().unwrap(), "r".parse::<RunId>().unwrap());
        batches
            .iter()
            .fold(None, |cursor, windows| advance(cursor, (&tenant, Source::Feedser, &run), &passed(windows), at(0)))
    }

    #[test]
    fn note_18_a_hole_between_windows_is_found_and_closed_by_a_late_window() {
        let holes = |batches: &[Vec<(i64, i64)>]| -> Vec<(i64, i64)> {
            let cursor = walk(batches).unwrap();
            cursor.holes.iter().map(|hole| (hole.from.seconds(), hole.to.seconds())).collect()
        };
        assert_eq!(holes(&[vec![(0, 10)], vec![(10, 20)]]), []);
        assert_eq!(holes(&[vec![(0, 10)], vec![(5, 20)]]), []);
        assert_eq!(holes(&[vec![(0, 10)], vec![(30, 40)]]), [(10, 30)]);
        assert_eq!(holes(&[vec![(30, 40), (0, 10), (10, 30)]]), [], "the order of arrival makes no hole");
        assert_eq!(holes(&[vec![(0, 10)], vec![(30, 40)], vec![(15, 20)]]), [(10, 15), (20, 30)]);
        assert_eq!(holes(&[vec![(0, 10)], vec![(30, 40)], vec![(10, 30)]]), []);
        assert_eq!(walk(&[vec![(0, 10)], vec![(30, 40)], vec![(10, 30)]]).unwrap().holes_found, 1, "it was there");
    }

    #[test]
    fn exports_without_windows_move_the_cursor_alone() {
        let (tenant, run) = ("t".parse::<TenantId>().unwrap(), "r".parse::<RunId>().unwrap());
        let bare = [Passed { export_id: "e-7".parse().unwrap(), window: None }];
        let moved = advance(None, (&tenant, Source::Vexer, &run), &bare, at(3)).unwrap();
        assert_eq!((moved.export_id.as_str(), moved.window_end, moved.moved_at), ("e-7", None, at(3)));
        assert_eq!(advance(None, (&tenant, Source::Vexer, &run), &[], at(3)), None);
    }

    proptest! {
        #[test]
        fn holes_are_what_no_window_covers(
            batches in proptest::collection::vec(
                proptest::collection::vec((0i64..60, 1i64..10), 1..4), 1..6)
        ) {
            let batches: Vec<Vec<(i64, i64)>> =
                batches.into_iter().map(|b| b.into_iter().map(|(from, len)| (from, from + len)).collect()).collect();
            let cursor = walk(&batches).unwrap();
            let covered: BTreeSet<i64> = batches.iter().flatten().flat_map(|&(from, to)| from..to).collect();
            let end = covered.iter().max().unwrap() + 1;
            // The first batch begins the coverage: what was before it nobody promised.
            let begin = batches[0].iter().map(|&(from, _)| from).min().unwrap();
            let expected: BTreeSet<i64> = (begin..end).filter(|second| !covered.contains(second)).collect();
            let found: BTreeSet<i64> =
                cursor.holes.iter().flat_map(|hole| hole.from.seconds()..hole.to.seconds()).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(cursor.window_end, Some(at(end)));
        }
    }
}
