//! Forms that are read, forms that are refused, and how both go out again.

use scheduler_calendar::{CronExpr, EXPR_LEN_MAX, Field, Zone};

#[test]
fn a_refusal_names_the_field_the_text_and_the_reason() {
    let cases = [
        ("", Field::Expression, 0, "cron expression ``: is empty"),
        ("61 * * * *", Field::Minute, 0, "minute field `61`: 61 is over 59"),
        ("5,61 * * * *", Field::Minute, 2, "minute field `61`: 61 is over 59"),
        ("1-75 * * * *", Field::Minute, 2, "minute field `75`: 75 is over 59"),
        ("0 0 0 * *", Field::DayOfMonth, 4, "day-of-month field `0`: 0 is under 1"),
        ("0 0 1 JANU *", Field::Month, 6, "month field `JANU`: is no name of this field"),
        ("0 0 * * 8", Field::DayOfWeek, 8, "day-of-week field `8`: 8 is over 7"),
        ("0 0 8 ? * 0", Field::DayOfWeek, 10, "day-of-week field `0`: 0 is under 1"),
        ("60 0 0 * * *", Field::Second, 0, "second field `60`: 60 is over 59"),
        ("0 0 0 1 1 ? 2100", Field::Year, 12, "year field `2100`: 2100 is over 2099"),
        ("*/0 * * * *", Field::Minute, 0, "minute field `*/0`: a step of zero never advances"),
        ("*/61 * * * *", Field::Minute, 0, "minute field `*/61`: a step of 61 is over 60, all that the field has"),
        ("1,,2 * * * *", Field::Minute, 0, "minute field `1,,2`: a list item is empty"),
        ("0 5- * * *", Field::Hour, 2, "hour field `5-`: a range needs a number or a name at both ends"),
        ("0 0 * * 1#6", Field::DayOfWeek, 8, "day-of-week field `1#6`: the number after `#` is 1 to 5"),
        ("0 0 L-31 * *", Field::DayOfMonth, 6, "day-of-month field `31`: 31 is over 30"),
        ("0 ? * * *", Field::Hour, 2, "hour field `?`: `?` stands alone in one of the two day fields, nowhere else"),
        ("0 L * * *", Field::Hour, 2, "hour field `L`: `L`, `W` and `#` do not belong here"),
        (
            "0 0 1-5W * *",
            Field::DayOfMonth,
            4,
            "day-of-month field `1-5W`: `W`, `L` and `#` are about one day, not about a range or a step",
        ),
        (
            "0 0 * * 1-5#2",
            Field::DayOfWeek,
            8,
            "day-of-week field `1-5#2`: `W`, `L` and `#` are about one day, not about a range or a step",
        ),
        (
            "0 0 * * */2L",
            Field::DayOfWeek,
            8,
            "day-of-week field `*/2L`: `W`, `L` and `#` are about one day, not about a range or a step",
        ),
        (
            "0 0 12 ? * ?",
            Field::DayOfWeek,
            11,
            "day-of-week field `?`: `?` may stand in one of the two day fields, not in both",
        ),
        (
            "0 0 12 1 1 * 2026",
            Field::DayOfWeek,
            11,
            "day-of-week field `*`: with a year, one of the two day fields must be `?`",
        ),
        (
            "0 0 12 1 1 ? 2028-2026",
            Field::Year,
            13,
            "year field `2028-2026`: the range ends before it starts; only forms with `?` wrap, and years never do",
        ),
        (
            "* * * *",
            Field::Expression,
            0,
            "cron expression `* * * *`: has 4 fields; 5, 6 (seconds first) or 7 (year last) are allowed",
        ),
        (
            "0 0 * * *\u{0}",
            Field::Expression,
            9,
            "cron expression `\\0`: only printable ASCII characters and blanks are allowed",
        ),
    ];
    for (expr, field, position, message) in cases {
        let error = CronExpr::parse(expr).unwrap_err();
        assert_eq!((error.field, error.position, error.to_string().as_str()), (field, position, message), "{expr:?}");
    }
}

#[test]
fn forms_that_mean_the_same_read_the_same() {
    let pairs = [
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * */7", "0 0 * * SUN"),
        ("0 0 * * 5-7", "0 0 * * fri,Sat,sUN"),
        ("@daily", "@midnight"),
        ("  0\t0  * * * ", "0 0 0 * * *"),
        ("0 0 8 ? * FRI-MON", "0 0 8 ? * 6,7,1,2"),
        ("0 0 8 ? * L", "0 0 8 ? * SAT"),
        ("0 0 22-2 * * ?", "0 0 0,1,2,22,23 * * ?"),
        ("0 50-10/5 3 * * ?", "0 0,5,10,50,55 3 * * ?"),
        ("0 0 ? * 2", "0 0 * * MON"),
        ("0 0 lw * *", "0 0 LW * *"),
        ("*/60 * * * *", "@hourly"),
    ];
    for (one, other) in pairs {
        let read = |expr| CronExpr::parse(expr).unwrap().explain();
        assert_eq!(read(one), read(other), "{one} {other}");
    }
}

#[test]
fn text_at_the_limit_is_read_and_one_byte_more_is_refused() {
    let expr = |len: usize| format!("{:<len$}", "0 2 * * *");
    CronExpr::parse(&expr(EXPR_LEN_MAX)).unwrap();
    CronExpr::parse(&expr(EXPR_LEN_MAX + 1)).unwrap_err();
    let all = |from: u32, to: u32| (from..=to).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let longest = [all(0, 59), all(0, 23), all(1, 31), all(1, 12), all(0, 7)].join(" ");
    CronExpr::parse(&longest).unwrap();
}

#[test]
fn expressions_and_zones_are_strings_on_the_wire() {
    let expr: CronExpr = serde_json::from_str(r#"" 0 2 * * MON""#).unwrap();
    assert_eq!(serde_json::to_string(&expr).unwrap(), r#"" 0 2 * * MON""#);
    let error = serde_json::from_str::<CronExpr>(r#""0 25 * * *""#).unwrap_err();
    assert!(error.to_string().starts_with("hour field `25`: 25 is over 23"), "{error}");
    let zone: Zone = serde_json::from_str(r#""Europe/Sofia""#).unwrap();
    assert_eq!(serde_json::to_string(&zone).unwrap(), r#""Europe/Sofia""#);
    serde_json::from_str::<Zone>(r#""PST""#).unwrap_err();
}

#[test]
fn only_exact_iana_names_are_zones() {
    for name in ["UTC", "Europe/Sofia", "US/Pacific", "Etc/GMT+5", "America/Argentina/Buenos_Aires"] {
        assert_eq!(Zone::parse(name).unwrap().name(), name);
    }
    let refused = [
        "",
        " ",
        "utc",
        "europe/sofia",
        "Europe/Sofia ",
        "Europe/Sofia\n",
        "Europe/Sofia\0",
        "PST",
        "UTC+2",
        "+02:00",
        "EST5EDT,M3.2.0,M11.1.0",
        "/etc/localtime",
        "../Europe/Sofia",
        "posix/Europe/Sofia",
        "right/UTC",
        "localtime",
        "posixrules",
        "Factory",
        "zone.tab",
        "Local",
    ];
    for name in refused {
        Zone::parse(name).unwrap_err();
    }
}
