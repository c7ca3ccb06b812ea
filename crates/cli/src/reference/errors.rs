//! The page of error codes.

use crate::golden::golden;
use scheduler_web::Code;

const HEAD: &str = "# Errors

Every error of the REST interface is `application/problem+json` (RFC 9457):

```json
{ \"type\": \"urn:stella-scheduler:problem:bad-input\", \"title\": \"Bad Request\", \"status\": 400,
  \"detail\": \"/keys/1: …\", \"code\": \"bad-input\", \"errors\": [ { \"pointer\": \"/keys/1\", \"detail\": \"…\" } ] }
```

`code` is for programs and does not change; `detail` is for people and may. `errors` names places in the body (JSON pointers), query
parameters (`?name`) or headers. 429 and 503 carry `Retry-After`. Which operation answers which code stands in [the API](api.md).

| code | status | what it means, and the way out |
| --- | --- | --- |
";

#[test]
fn the_page_of_errors_is_what_the_service_answers() {
    let rows: String = Code::ALL
        .iter()
        .map(|code| format!("| `{}` | {} | {} |\n", code.as_str(), code.status().as_u16(), code.meaning()))
        .collect();
    golden("docs/reference/errors.md", &format!("{HEAD}{rows}"));
}
