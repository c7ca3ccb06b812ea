//! The page of the REST interface, written from the OpenAPI document.

use crate::golden::golden;
use serde_json::Value;
use std::fmt::Write;

const HEAD: &str = "# REST interface

Written from the OpenAPI 3.1 document, which `GET /openapi.json` and `stella-scheduler openapi` give. Paths are as callers see them;
`stella-scheduler` has a verb for each ([command line](cli.md)).

- **Tenant.** `X-Tenant-Id` names it; without the header it is `default`. Something of another tenant is 404.
- **Bodies** are JSON, may be `Content-Encoding: gzip` or `zstd`, and are at most `limits.maxBodyBytes` large. Unknown members are refused
  (400), but ignored in webhooks, sidecars and SBOMs.
- **Lists** take `limit` and `cursor` and answer `items` and `nextCursor`. A full walk sees every item that existed throughout exactly
  once.
- **Errors** are problem documents: [errors](errors.md). What a status means at an operation stands with it.
- **Events** of the stream: [events](events.md).
";

/// The document.
fn document() -> Value {
    serde_json::from_str(&scheduler_web::openapi_json().unwrap()).unwrap()
}

fn page(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    for tag in document["tags"].as_array().unwrap() {
        let name = tag["name"].as_str().unwrap();
        let (first, rest) = name.split_at(1);
        write!(out, "\n## {}{rest}\n\n{}.\n", first.to_uppercase(), tag["description"].as_str().unwrap()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if operation["tags"][0] == name {
                    write_operation(&mut out, method, path, operation);
                }
            }
        }
    }
    out.push_str("\n## Documents\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        write_schema(&mut out, name, schema);
    }
    out
}

fn write_operation(out: &mut String, method: &str, path: &str, operation: &Value) {
    write!(out, "\n### {} {path}\n\n{}\n", method.to_uppercase(), text(&operation["summary"])).unwrap();
    if let Some(description) = operation["description"].as_str() {
        write!(out, "\n{description}\n").unwrap();
    }
    let mut parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    // The same everywhere; the head of the page says it once.
    parameters.retain(|parameter| parameter["name"] != "X-Tenant-Id");
    if !parameters.is_empty() {
        out.push_str("\n| parameter | in | form | |\n| --- | --- | --- | --- |\n");
    }
    for parameter in parameters {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let (form, about) = (form(&parameter["schema"]), cell(&parameter["description"]));
        writeln!(out, "| `{name}` | {place} | {form} | {about} |").unwrap();
    }
    if let Some(content) = operation["requestBody"]["content"].as_object() {
        let forms: Vec<String> =
            content.iter().map(|(kind, body)| format!("`{kind}`, {}", form(&body["schema"]))).collect();
        write!(out, "\nBody: {}\n", forms.join("; ")).unwrap();
    }
    out.push_str("\n| status | body | |\n| --- | --- | --- |\n");
    let mut errors = Vec::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        let description = text(&response["description"]);
        let content = response["content"].as_object().and_then(|content| content.iter().next());
        match content {
            Some((kind, _)) if kind == "application/problem+json" => {
                errors.extend(description.split("- `").skip(1).filter_map(|rest| {
                    let (code, _) = rest.split_once('`')?;
                    Some(format!("{status} `{code}`"))
                }));
            }
            Some((_, body)) => writeln!(out, "| {status} | {} | {description} |", form(&body["schema"])).unwrap(),
            None => writeln!(out, "| {status} | | {description} |").unwrap(),
        }
    }
    if !errors.is_empty() {
        write!(out, "\n[Errors](errors.md): {}\n", errors.join(", ")).unwrap();
    }
}

fn write_schema(out: &mut String, name: &str, schema: &Value) {
    write!(out, "\n### {name}\n\n").unwrap();
    if let Some(description) = schema["description"].as_str() {
        write!(out, "{description}\n\n").unwrap();
    }
    let Some(members) = schema["properties"].as_object() else {
        writeln!(out, "Form: {}", form(schema)).unwrap();
        return;
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    out.push_str("| member | form | |\n| --- | --- | --- |\n");
    for (member, schema) in members {
        let mark = if required.contains(&member.as_str()) { "" } else { "?" };
        writeln!(out, "| `{member}`{mark} | {} | {} |", form(schema), cell(&schema["description"])).unwrap();
    }
    if let Some(example) = schema.get("example").or(schema["examples"].get(0)) {
        write!(out, "\n```json\n{example}\n```\n").unwrap();
    }
}

/// A schema in a few words.
fn form(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for (member, join) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[member].as_array() {
            return parts.iter().map(form).collect::<Vec<_>>().join(join);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{}`", text(word))).collect::<Vec<_>>().join(", ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let limits = limits(schema);
    let words: Vec<String> = kinds.into_iter().map(|kind| word(kind, schema)).collect();
    format!("{}{limits}", words.join(" or "))
}

fn word(kind: &str, schema: &Value) -> String {
    match kind {
        "array" => format!("list of {}", form(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            Value::Object(_) => format!("object of {}", form(&schema["additionalProperties"])),
            _ => "object".to_owned(),
        },
        "string" => schema["format"].as_str().unwrap_or("string").to_owned(),
        other => other.to_owned(),
    }
}

/// Its bounds and its default.
fn limits(schema: &Value) -> String {
    let mut said = Vec::new();
    let bounds = [("minimum", "maximum", ""), ("minLength", "maxLength", " characters")];
    for (least, most, unit) in bounds {
        match (&schema[least], &schema[most]) {
            (Value::Null, Value::Null) => {}
            (least, Value::Null) if *least == 0 => {}
            (least, Value::Null) => said.push(format!("at least {least}{unit}")),
            (Value::Null, most) => said.push(format!("at most {most}{unit}")),
            (least, most) => said.push(format!("{least} to {most}{unit}")),
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        said.push(format!("`{}`", pattern.replace('|', "\\|")));
    }
    if !schema["default"].is_null() {
        said.push(format!("default `{}`", text(&schema["default"])));
    }
    if said.is_empty() { String::new() } else { format!(", {}", said.join(", ")) }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}

/// A description in a table.
fn cell(value: &Value) -> String {
    text(value).replace('\n', " ").replace('|', "\\|")
}

#[test]
fn the_page_of_the_interface_is_what_the_document_says() {
    golden("docs/reference/api.md", &page(&document()));
}
