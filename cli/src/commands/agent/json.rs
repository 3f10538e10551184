//! Edits one entry of a JSON file with comments, of which everything else stays.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

use super::NAME;

/// The text with `text[key][NAME]` set to this object. Other members of the entry stay.
pub fn set(text: &str, key: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let root = parse(text)?;
    let server = servers(&root, key)?.object_value_or_set(NAME);
    let text = |value: &Value| CstInputValue::from(value.as_str().unwrap_or_default());
    for (member, value) in entry {
        let value = match value {
            Value::Array(values) => CstInputValue::Array(values.iter().map(text).collect()),
            value => text(value),
        };
        match server.get(member) {
            Some(found) => found.set_value(value),
            None => drop(server.append(member, value)),
        }
    }
    Ok(root.to_string())
}

/// The text without `text[key][NAME]`, and without objects that are empty then.
pub fn remove(text: &str, key: &str) -> Result<String, String> {
    let root = parse(text)?;
    let servers = servers(&root, key)?;
    let Some(server) = servers.get(NAME) else { return Ok(text.to_owned()) };
    server.remove();
    let object = root.object_value_or_set();
    if let Some(property) = object.get(key).filter(|_| is_empty(&servers)) {
        property.remove();
    }
    if is_empty(&object) {
        object.remove();
    }
    Ok(root.to_string())
}

/// The command and the first argument of `text[key][NAME]`, if it exists.
pub fn command(text: &str, key: &str) -> Result<Option<[String; 2]>, String> {
    let server = servers(&parse(text)?, key)?.get(NAME);
    Ok(server.map(|server| {
        let server = server.to_serde_value().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        [text(&server["command"]), text(&server["args"][0])]
    }))
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    // The kind of an error does not quote the file.
    CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| format!("line {} is not JSON: {}", error.line_display(), error.kind()))
}

/// The object with the servers, which is created if it is missing.
fn servers(root: &CstRootNode, key: &str) -> Result<CstObject, String> {
    let object = root.object_value_or_create().ok_or("it is not a JSON object")?;
    object.object_value_or_create(key).ok_or_else(|| format!("`{key}` is not an object"))
}

/// Whether an object has neither properties nor comments.
fn is_empty(object: &CstObject) -> bool {
    !object.to_string().contains(|c: char| !c.is_whitespace() && !"{}".contains(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTRY: &str = r#"{"command":"/bin/svc","args":["mcp"]}"#;

    fn added(text: &str) -> String {
        set(text, "servers", &serde_json::from_str(ENTRY).expect("JSON")).expect("set")
    }

    fn value(text: &str) -> Value {
        let root = parse(text).expect("JSON").value().expect("a value");
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
            assert_eq!(remove(&after, "servers").as_deref(), Ok(before), "{after}");
        }
        for before in ["", "{}", "{\"servers\": {}}"] {
            let rest = remove(&added(before), "servers").expect("removed");
            assert_eq!(rest.trim(), "", "{before}");
        }
        // What has a comment is not empty.
        for before in ["{ // none\n}", "{\"servers\": { /* none */ }}"] {
            let rest = remove(&added(before), "servers").expect("removed");
            assert!(rest.contains("none"), "{rest}");
        }
    }

    #[test]
    fn what_others_added_stays() {
        let after = added("{\"a\": 1}").replace("\"svc\"", "\"other\": {}, \"svc\"");
        let after = after.replace("\"command\"", "\"trust\": false, \"command\"");
        assert_eq!(value(&added(&after))["servers"]["svc"]["trust"], false);
        let rest = remove(&after, "servers").expect("removed");
        assert_eq!(value(&rest), serde_json::json!({"a": 1, "servers": {"other": {}}}));
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| set(text, "servers", &Map::new()).expect_err("refused");
        assert_eq!(problem("{\n\"key\": @secret\n}"), "line 2 is not JSON: Unexpected token");
        assert_eq!(problem("[]"), "it is not a JSON object");
        assert_eq!(problem("{\n\"servers\": []}"), "`servers` is not an object");
        assert!(remove("{", "servers").is_err());
    }

    proptest! {
        #[test]
        fn every_other_value_and_comment_stays(
            names in prop::collection::vec("[a-z]{1,3}", 1..4),
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
            let rest = remove(&after, "servers").expect("removed");
            prop_assert_eq!(value(&rest), value(&text));
            for comment in ["/* , */", "// ,", "// }"] {
                prop_assert_eq!(text.matches(comment).count(), rest.matches(comment).count());
            }
        }
    }
}
