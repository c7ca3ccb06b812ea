//! The time that an export says it covers. It moves cursors and nothing else, so that one which means nothing is no reason to
//! refuse changed packages: it is left out, and the answer and the log say so.

use scheduler_model::{Timestamp, Window};
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;

/// How far a sender's clock may be ahead. A window that ends later would hide every hole before its end.
const AHEAD_MAX: Duration = Duration::from_secs(3600);

/// Reads a window that was received at `now`; the error says why it counts for nothing.
pub fn read(window: Option<&RawValue>, now: Timestamp) -> Result<Option<Window>, String> {
    let Some(window) = window else { return Ok(None) };
    let Ok(Value::Object(members)) = serde_json::from_str(window.get()) else {
        return Err("it is no object of `from` and `to`".to_owned());
    };
    let time = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Timestamp::parse(text).map(Some).map_err(|error| format!("`{name}`: {error}")),
        Some(_) => Err(format!("`{name}` is no text")),
    };
    let (from, to) = (time("from")?, time("to")?);
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        return Err("it ends before it begins".to_owned());
    }
    let Some(end) = to.or(from) else { return Ok(None) };
    if end.since(now) > AHEAD_MAX {
        return Err(format!("it ends at {end}, and now it is {now}: one of the clocks is wrong"));
    }
    Ok(Some(Window { from, to }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn of(window: &Value, now: Timestamp) -> Result<Option<Window>, String> {
        read(Some(&serde_json::value::to_raw_value(window).unwrap()), now)
    }

    #[test]
    fn note_18_a_window_that_means_nothing_moves_no_cursor_and_says_why() {
        let now = at("2026-11-01T08:00:00Z");
        let [early, late] = ["2026-11-01T05:00:00Z", "2026-11-01T09:00:00Z"];
        for (window, told) in [
            (json!("x"), "no object"),
            (json!([early, late]), "no object"),
            (json!({"from": 5, "to": late}), "`from` is no text"),
            (json!({"from": early, "to": "later"}), "`to`: `later` is no RFC 3339 time"),
            (json!({"from": late, "to": early}), "ends before it begins"),
            (json!({"from": early, "to": "2026-11-01T09:00:00.001Z"}), "clocks is wrong"),
            (json!({"from": "2090-01-01T00:00:00Z"}), "clocks is wrong"),
        ] {
            let error = of(&window, now).unwrap_err();
            assert!(error.contains(told), "{window}: {error}");
        }
        for (window, from, to) in [
            (json!({"from": early, "to": late}), Some(early), Some(late)),
            (json!({"from": early, "to": early}), Some(early), Some(early)),
            (json!({"from": early, "to": null}), Some(early), None),
            (json!({"to": late}), None, Some(late)),
        ] {
            let expected = Window { from: from.map(at), to: to.map(at) };
            assert_eq!(of(&window, now), Ok(Some(expected)), "{window}");
        }
        assert_eq!(read(None, now), Ok(None));
        for nothing in [json!({}), json!({"until": late})] {
            assert_eq!(of(&nothing, now), Ok(None));
        }
    }
}
