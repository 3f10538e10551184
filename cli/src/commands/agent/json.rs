//! Edits one entry of a JSON file with comments. All other bytes stay, and `remove` restores what was
//! before `set`: an object that `set` created starts on a new line, in an empty one it does not.

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

/// The text with `text[key][name]` set to this object. Other members of the entry stay.
pub fn set(
    text: &str,
    key: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let Some(root) = parse(text)? else {
        return Ok(format!("{text}{}\n", pretty(text, 0, &json!({key: {name: entry}}))));
    };
    let Some(servers) = root.get(key) else {
        return Ok(insert(text, &root, key, &json!({name: entry})));
    };
    let servers = object(text, servers)?;
    let Some(found) = servers.get(name) else {
        return Ok(insert(text, servers, name, &json!(entry)));
    };
    let (start, end) = (found.value.start(), found.value.end());
    let before = serde_json::from_str(&text[start..end]).unwrap_or(Map::new());
    let mut after = before.clone();
    after.extend(entry.clone());
    if before == after {
        return Ok(text.to_owned());
    }
    let value = pretty(text, found.start(), &after.into());
    Ok(format!("{}{value}{}", &text[..start], &text[end..]))
}

/// The text without `text[key][name]`; `None` if nothing is left.
pub fn remove(text: &str, key: &str, name: &str) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some((root, servers)) = root.as_ref().and_then(|root| Some((root, root.get(key)?))) else {
        return Ok(Some(text.to_owned()));
    };
    let object = object(text, servers)?;
    let rest = match object.get(name) {
        None => text.to_owned(),
        Some(entry) if !is_created(text, object) => without(text, entry),
        Some(_) if !is_created(text, root) => without(text, servers),
        Some(_) => format!("{}{}", &text[..root.start()], &text[root.end()..]),
    };
    parse(&rest)?;
    Ok((!rest.trim().is_empty()).then_some(rest))
}

/// The command and the first argument of `text[key][name]`, if it exists.
pub fn command(text: &str, key: &str, name: &str) -> Result<Option<[String; 2]>, String> {
    let root = parse(text)?;
    let Some(servers) = root.as_ref().and_then(|root| root.get(key)) else { return Ok(None) };
    let Some(entry) = object(text, servers)?.get(name) else { return Ok(None) };
    let member = |name| Some(&entry.value.as_object()?.get(name)?.value);
    let first = member("args").and_then(|args| args.as_array()?.elements.first());
    let string = |node: Option<&Node<'_>>| {
        node.and_then(Node::as_string_lit).map(|it| it.value.to_string()).unwrap_or_default()
    };
    Ok(Some([string(member("command")), string(first)]))
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

/// Adds a property at the start of an object, before the comments of the others.
fn insert(text: &str, object: &Object<'_>, name: &str, value: &Value) -> String {
    let (before, after) = text.split_at(object.start() + 1);
    let first = object.properties.first().map(ObjectProp::start);
    let value = pretty(text, first.unwrap_or(object.start()), value);
    match first {
        Some(first) => format!("{before}{}{}: {value},{after}", line(text, first), json!(name)),
        None => format!("{before}{}: {value}{after}", json!(name)),
    }
}

/// A value for the line at this position, in the style of the file.
fn pretty(text: &str, at: usize, value: &Value) -> String {
    let unit = text.lines().map(indent).find(|unit| !unit.is_empty()).unwrap_or("  ");
    let mut json = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let _ = value.serialize(&mut Serializer::with_formatter(&mut json, formatter));
    String::from_utf8_lossy(&json).replace('\n', &line(text, at))
}

/// A new line, indented as that at this position.
fn line(text: &str, at: usize) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    format!("{newline}{}", indent(&text[start..]))
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Whether `set` created the object: its only property has lines of its own, without comments.
fn is_created(text: &str, object: &Object<'_>) -> bool {
    let [only] = &object.properties[..] else { return false };
    let around = [&text[object.start() + 1..only.start()], &text[only.end()..object.end() - 1]];
    around.iter().all(|space| space.contains('\n') && space.trim().is_empty())
}

/// The text without a property, and without the comma that separates it.
fn without(text: &str, property: &ObjectProp<'_>) -> String {
    let (before, after) = (text[..property.start()].trim_end(), &text[property.end()..]);
    match after.trim_start().strip_prefix(',') {
        Some(after) => format!("{before}{after}"),
        None => format!("{}{after}", before.strip_suffix(',').unwrap_or(before)),
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
        let entry = "{\n  \"command\": \"/bin/svc\",\n  \"args\": [\n    \"mcp\"\n  ]\n}";
        let entry = |indent: &str| entry.replace('\n', &format!("\n{indent}"));
        let (outer, middle, inner) = (entry(""), entry("  "), entry("    "));
        round_trip("", &format!("{{\n  \"servers\": {{\n    \"svc\": {inner}\n  }}\n}}\n"));
        round_trip("{}", &format!("{{\"servers\": {{\n  \"svc\": {middle}\n}}}}"));
        round_trip("{\"servers\": {}}\n", &format!("{{\"servers\": {{\"svc\": {outer}}}}}\n"));
        round_trip(
            "{\"a\": 1, \"servers\": { }}",
            &format!("{{\"a\": 1, \"servers\": {{\"svc\": {outer} }}}}"),
        );
        round_trip(
            "{\n  \"servers\": {\n    // b, c\n    \"a\": {}, // last\n  }\n}",
            &format!(
                "{{\n  \"servers\": {{\n    \"svc\": {inner},\n    // b, c\n    \"a\": {{}}, // last\n  }}\n}}"
            ),
        );
        round_trip(
            "// all\n{ // none\n}",
            &format!("// all\n{{\"servers\": {{\n  \"svc\": {middle}\n}} // none\n}}"),
        );
        let windows = "{\r\n\t\"a\": 1\r\n}\r\n";
        let after = added(windows);
        assert!(after.contains("\r\n\t\t\"svc\": {\r\n\t\t\t\"command\""), "{after}");
        round_trip(windows, &after);
    }

    #[test]
    fn what_others_added_later_stays() {
        let after = added("{\"a\": 1}").replace("\"svc\"", "\"other\": {}, \"svc\"");
        let restored = remove(&after, "servers", "svc").expect("removed").expect("a rest");
        let restored = serde_json::from_str::<Value>(&restored).expect("JSON");
        assert_eq!(restored["servers"]["other"], json!({}));
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| set(text, "servers", "svc", &Map::new()).expect_err("refused");
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
