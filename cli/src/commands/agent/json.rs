//! Edits one entry of a JSON file with comments, of which everything else stays.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::NAME;

/// Sets `text[key][NAME]`, of which other members stay, or removes it and the objects that are empty
/// then. Returns the text, and what was there.
pub fn edit(
    text: &str,
    key: &str,
    entry: Option<&Map<String, Value>>,
) -> Result<(String, Option<Value>), String> {
    // The kind of an error does not quote the file.
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| {
        format!(
            "line {} is not JSON: {}",
            error.line_display(),
            error.kind()
        )
    })?;
    let object = root
        .object_value_or_create()
        .ok_or("it is not a JSON object")?;
    let is_key = |it: &CstObjectProp| it.decoded_name().as_deref() == Some(key);
    if object.properties().into_iter().filter(is_key).count() > 1 {
        return Err(format!("`{key}` occurs more than once"));
    }
    let servers = object.object_value_or_create(key);
    let servers = servers.ok_or_else(|| format!("`{key}` is not an object"))?;
    let found = servers.get(NAME);
    let before = found
        .as_ref()
        .map(|server| server.to_serde_value().unwrap_or_default());
    match (entry, found) {
        (Some(entry), _) => {
            let server = servers.object_value_or_set(NAME);
            for (member, value) in entry {
                match server.get(member) {
                    Some(found) => found.set_value(input(value)),
                    None => drop(server.append(member, input(value))),
                }
            }
        }
        (None, Some(server)) => {
            server.remove();
            if let Some(property) = object.get(key).filter(|_| is_empty(&servers)) {
                property.remove();
            }
            if is_empty(&object) {
                object.remove();
            }
        }
        (None, None) => return Ok((text.to_owned(), None)),
    }
    Ok((root.to_string(), before))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        value => CstInputValue::from(value.as_str().unwrap_or_default()),
    }
}

/// Whether an object has neither properties nor comments.
fn is_empty(object: &CstObject) -> bool {
    !object
        .to_string()
        .contains(|c: char| !c.is_whitespace() && !"{}".contains(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTRY: &str = r#"{"command":"/bin/svc","args":["mcp"]}"#;

    fn added(text: &str) -> String {
        let entry = serde_json::from_str(ENTRY).expect("JSON");
        edit(text, "servers", Some(&entry)).expect("set").0
    }

    fn removed(text: &str) -> String {
        edit(text, "servers", None).expect("removed").0
    }

    fn value(text: &str) -> Value {
        let root = CstRootNode::parse(text, &ParseOptions::default()).expect("JSON");
        let root = root.value().expect("a value");
        root.to_serde_value().expect("no other words")
    }

    #[test]
    fn what_was_added_is_removed_again() {
        let entry = "{\n    \"servers\": {\n        \"svc\": {\n            \"command\": \"/bin/svc\",\n            \"args\": [\"mcp\"]\n        }\n    }\n}\n";
        assert_eq!(added("").replace("  ", "    ").trim_end(), entry.trim_end());
        for before in [
            "{\n  \"a\": 1\n}\n",
            "// all\n{\n\t// b, c\n\t\"servers\": {\n\t\t\"a\": {}, // last\n\t},\n}\n",
            "{\r\n\t\"a\": 1\r\n}\r\n",
        ] {
            let after = added(before);
            assert_eq!(added(&after), after);
            assert_eq!(removed(&after), before, "{after}");
        }
        for before in ["", "{}", "{\"servers\": {}}"] {
            let rest = removed(&added(before));
            assert_eq!(rest.trim(), "", "{before}");
        }
        // What has a comment is not empty.
        for before in ["{ // none\n}", "{\"servers\": { /* none */ }}"] {
            let rest = removed(&added(before));
            assert!(rest.contains("none"), "{rest}");
        }
    }

    #[test]
    fn what_others_added_stays() {
        let after = added("{\"a\": 1}").replace("\"svc\"", "\"other\": {}, \"svc\"");
        let after = after.replace("\"command\"", "\"trust\": false, \"command\"");
        assert_eq!(value(&added(&after))["servers"]["svc"]["trust"], false);
        let rest = removed(&after);
        assert_eq!(
            value(&rest),
            serde_json::json!({"a": 1, "servers": {"other": {}}})
        );
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| edit(text, "servers", Some(&Map::new())).expect_err("refused");
        assert_eq!(
            problem("{\n\"key\": @secret\n}"),
            "line 2 is not JSON: Unexpected token"
        );
        assert_eq!(problem("[]"), "it is not a JSON object");
        assert_eq!(problem("{\n\"servers\": []}"), "`servers` is not an object");
        // Which of them a client reads is not known.
        let twice = problem("{\"servers\": {}, \"servers\": {}}");
        assert_eq!(twice, "`servers` occurs more than once");
        assert!(edit("{", "servers", None).is_err());
    }

    proptest! {
        #[test]
        fn every_other_value_and_comment_stays(
            // Shorter than `svc`.
            names in prop::collection::vec("[a-z]{1,2}", 1..4),
            has_servers: bool,
            gap in r"( |\n  |\n\t|/\* , \*/ |// ,\n  )",
            end in r"(,?|,?\n|,? // \}\n)",
        ) {
            let list = names.iter().map(|name| format!("{gap}\"{name}\": {{}}")).collect::<Vec<_>>();
            let object = format!("{{{}{end}}}", list.join(","));
            let text = match has_servers {
                true => format!("{{{gap}\"servers\": {object}\n}}\n"),
                false => object,
            };
            let after = added(&text);
            prop_assert_eq!(added(&after), after.clone());
            prop_assert_eq!(&value(&after)["servers"]["svc"]["command"], "/bin/svc");
            let rest = removed(&after);
            prop_assert_eq!(value(&rest), value(&text));
            for comment in ["/* , */", "// ,", "// }"] {
                prop_assert_eq!(text.matches(comment).count(), rest.matches(comment).count());
            }
        }
    }
}
