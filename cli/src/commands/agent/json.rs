//! Edits one entry of a JSON file with comments. All other bytes stay, and `remove` restores what was
//! before `set`: an object that `set` created starts on a new line, in an empty one it does not.

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

/// The text with `text[key][name]` set to this object. Other members of the entry stay.
pub fn set(text: &str, key: &str, name: &str, entry: &Value) -> Result<String, String> {
    let Some(root) = parse(text)? else {
        return Ok(format!(
            "{text}{}\n",
            Style::of(text, None).pretty(&json!({key: {name: entry}}), "")
        ));
    };
    let style = Style::of(text, Some(&root));
    let Some(servers) = root.get(key) else {
        return Ok(style.insert(&root, key, &json!({name: entry})));
    };
    let servers = object(text, servers)?;
    let Some(found) = servers.get(name) else {
        return Ok(style.insert(servers, name, entry));
    };
    let range = found.value.range();
    let before = serde_json::from_str::<Map<_, _>>(&text[range.start..range.end]);
    let mut after = before.as_ref().cloned().unwrap_or_default();
    after.extend(entry.as_object().cloned().unwrap_or_default());
    if before.is_ok_and(|before| before == after) {
        return Ok(text.to_owned());
    }
    let value = style.pretty(&Value::Object(after), style.indent_at(found.start()));
    Ok(format!("{}{value}{}", &text[..range.start], &text[range.end..]))
}

/// The text without `text[key][name]`; `None` if nothing is left.
pub fn remove(text: &str, key: &str, name: &str) -> Result<Option<String>, String> {
    let unchanged = || Ok(Some(text.to_owned()));
    let Some(root) = parse(text)? else { return unchanged() };
    let index = |object: &Object<'_>, name| {
        object.properties.iter().position(|property| property.name.as_str() == name)
    };
    let Some(at) = index(&root, key) else { return unchanged() };
    let servers = object(text, &root.properties[at])?;
    let Some(entry) = index(servers, name) else { return unchanged() };
    if !is_created(text, servers) {
        return Ok(Some(without(text, servers, entry)));
    }
    let is_all = is_created(text, &root) && text.trim().len() == root.range.end - root.range.start;
    Ok((!is_all).then(|| without(text, &root, at)))
}

fn parse(text: &str) -> Result<Option<Object<'_>>, String> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    // The kind of an error does not quote the file.
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| format!("line {} is not JSON: {}", error.line_display(), error.kind()))?;
    match parsed.value {
        None => Ok(None),
        Some(Node::Object(root)) => Ok(Some(root)),
        Some(_) => Err("it is not a JSON object".to_owned()),
    }
}

fn object<'a, 'b>(text: &str, property: &'b ObjectProp<'a>) -> Result<&'b Object<'a>, String> {
    property.value.as_object().ok_or_else(|| {
        let line = text[..property.start()].matches('\n').count() + 1;
        format!("line {line}: `{}` is not an object", property.name.as_str())
    })
}

/// How the lines of a file are indented.
struct Style<'a> {
    text: &'a str,
    unit: &'a str,
    newline: &'static str,
}

impl<'a> Style<'a> {
    fn of(text: &'a str, root: Option<&Object<'_>>) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let style = Self { text, unit: "  ", newline };
        let first = root.and_then(|root| root.properties.first());
        let unit = first.map_or("", |first| style.indent_at(first.start()));
        Self { unit: if unit.is_empty() { "  " } else { unit }, ..style }
    }

    /// The white space at the start of the line.
    fn indent_at(&self, at: usize) -> &'a str {
        let line = &self.text[self.text[..at].rfind('\n').map_or(0, |end| end + 1)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    fn pretty(&self, value: &Value, indent: &str) -> String {
        let mut json = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.unit.as_bytes());
        let _ = value.serialize(&mut Serializer::with_formatter(&mut json, formatter));
        String::from_utf8_lossy(&json).replace('\n', &format!("{}{indent}", self.newline))
    }

    /// Adds a property at the end of an object, after its comments.
    fn insert(&self, object: &Object<'_>, name: &str, value: &Value) -> String {
        let (start, end) = (object.range.start + 1, object.range.end - 1);
        let within = &self.text[start..end];
        let property = |indent: &str| format!("{}: {}", json!(name), self.pretty(value, indent));
        let Some(last) = object.properties.last() else {
            let indent = self.indent_at(object.range.start);
            let (at, before) = match within.trim_end() {
                "" => (start, property(indent)),
                comments => {
                    let indent = format!("{indent}{}", self.unit);
                    (
                        start + comments.len(),
                        format!("{}{indent}{}", self.newline, property(&indent)),
                    )
                }
            };
            return format!("{}{before}{}", &self.text[..at], &self.text[at..]);
        };
        let indent = self.indent_at(last.start());
        let separator = match within.contains('\n') {
            true => format!("{}{indent}", self.newline),
            false => " ".to_owned(),
        };
        let at = start + within.trim_end().len();
        let (property, comments) = (property(indent), &self.text[last.end()..at]);
        // A comma at the end stays one.
        let (comma, last_comma) = if comma(comments).is_some() { ("", ",") } else { (",", "") };
        let (before, after) = (&self.text[..last.end()], &self.text[at..]);
        format!("{before}{comma}{comments}{separator}{property}{last_comma}{after}")
    }
}

/// Whether `set` created the object: its only property has lines of its own, without comments.
fn is_created(text: &str, object: &Object<'_>) -> bool {
    let [only] = &object.properties[..] else { return false };
    let around =
        [&text[object.range.start + 1..only.start()], &text[only.end()..object.range.end - 1]];
    around.iter().all(|space| space.contains('\n') && space.trim().is_empty())
}

/// The text without a property, and without the comma that separates it.
fn without(text: &str, object: &Object<'_>, index: usize) -> String {
    let property = &object.properties[index];
    let next = object.properties.get(index + 1);
    let limit = next.map_or(object.range.end - 1, |next| next.start());
    let start = text[..property.start()].trim_end().len();
    let (mut before, mut after) = (text[..start].to_owned(), &text[property.end()..]);
    if let Some(at) = comma(&text[property.end()..limit]) {
        after = &after[at + 1..];
    } else if let Some(previous) = index.checked_sub(1) {
        let end = object.properties[previous].end();
        if let Some(at) = comma(&before[end..]) {
            before.remove(end + at);
        }
    }
    before + after
}

/// The position of the comma between two properties, outside of comments.
fn comma(between: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &between[at..];
        let comment = if rest.starts_with("//") {
            rest.find('\n')?
        } else if rest.starts_with("/*") {
            rest.find("*/")? + 2
        } else if rest.starts_with(',') {
            return Some(at);
        } else {
            rest.chars().next()?.len_utf8()
        };
        at += comment;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTRY: &str = r#"{"command":"/bin/svc","args":["mcp"]}"#;

    fn added(text: &str) -> String {
        set(text, "servers", "svc", &serde_json::from_str(ENTRY).expect("JSON")).expect("set")
    }

    /// What is added appears after `with`, and `remove` restores the bytes.
    #[track_caller]
    fn round_trip(before: &str, after: &str) {
        assert_eq!(added(before), after);
        assert_eq!(added(after), after);
        let restored = remove(after, "servers", "svc").expect("removed");
        assert_eq!(restored.unwrap_or_default(), before);
    }

    #[test]
    fn what_was_added_is_removed_to_the_byte() {
        let entry = "{\n    \"command\": \"/bin/svc\",\n    \"args\": [\n      \"mcp\"\n    ]\n  }";
        let inner = entry.replace('\n', "\n  ");
        let outer = entry.replace("\n  ", "\n");
        round_trip("", &format!("{{\n  \"servers\": {{\n    \"svc\": {inner}\n  }}\n}}\n"));
        round_trip("{}", &format!("{{\"servers\": {{\n  \"svc\": {entry}\n}}}}"));
        round_trip("{\"servers\": {}}\n", &format!("{{\"servers\": {{\"svc\": {outer}}}}}\n"));
        round_trip(
            "{\"servers\": { }, \"a\": 1}",
            &format!("{{\"servers\": {{\"svc\": {outer} }}, \"a\": 1}}"),
        );
        round_trip(
            "{\n  \"servers\": {\n    \"a\": {} // b, c\n    // last\n  }\n}",
            &format!(
                "{{\n  \"servers\": {{\n    \"a\": {{}}, // b, c\n    // last\n    \"svc\": {inner}\n  }}\n}}"
            ),
        );
        round_trip(
            "{\n  \"servers\": {\n    \"a\": {}, /* , */\n  },\n}\n",
            &format!(
                "{{\n  \"servers\": {{\n    \"a\": {{}}, /* , */\n    \"svc\": {inner},\n  }},\n}}\n"
            ),
        );
        round_trip(
            "{\n  // none\n}",
            &format!("{{\n  // none\n  \"servers\": {{\n    \"svc\": {inner}\n  }}\n}}"),
        );
        let windows = "{\r\n\t\"a\": 1\r\n}\r\n";
        let after = added(windows);
        assert!(after.contains("\r\n\t\t\"svc\": {\r\n\t\t\t\"command\""), "{after}");
        round_trip(windows, &after);
    }

    #[test]
    fn what_others_added_later_stays() {
        let after = added("{\"a\": 1}").replace("}}}", "}, \"b\": {}}}");
        let after = after.replace("\"svc\"", "\"other\": {}, \"svc\"");
        let restored = remove(&after, "servers", "svc").expect("removed").expect("a rest");
        let restored = serde_json::from_str::<Value>(&restored).expect("JSON");
        assert_eq!(restored["servers"]["other"], json!({}));
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let entry = json!({});
        let problem = |text: &str| set(text, "servers", "svc", &entry).expect_err("refused");
        assert_eq!(problem("{\n\"key\": secret\n}"), "line 2 is not JSON: Unexpected word");
        assert_eq!(problem("[]"), "it is not a JSON object");
        assert_eq!(problem("{\n\"servers\": []}"), "line 2: `servers` is not an object");
        assert!(remove("{", "servers", "svc").is_err());
    }

    proptest! {
        #[test]
        fn every_file_is_restored(
            names in prop::collection::vec("[a-z]{1,3}", 0..4),
            has_servers: bool,
            gap in r"( |\n  |\n\t|/\* , \*/ |// ,\n  )",
            end in r"(,?|,?\n|,? /\* \} \*/ )",
        ) {
            let list = names.iter().map(|name| format!("{gap}\"{name}\": {{}}")).collect::<Vec<_>>();
            let end = if names.is_empty() { end.replacen(',', "", 1) } else { end };
            let object = format!("{{{}{end}}}", list.join(","));
            let text = match has_servers {
                true => format!("{{{gap}\"servers\": {object}\n}}\n"),
                false => object,
            };
            let after = added(&text);
            prop_assert_eq!(added(&after), after.clone());
            prop_assert_eq!(remove(&after, "servers", "svc"), Ok(Some(text)));
        }
    }
}
