//! Edits one table of a TOML file, of which all other bytes stay.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::settings::table::to_item;

/// The text with the table `[key.name]` at its end. Other entries of the table stay.
pub fn set(
    text: &str,
    key: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let document = parse(text, key)?;
    let before = document.get(key).and_then(|servers| servers.get(name)).map(members);
    let mut after = before.clone().unwrap_or_default();
    after.extend(entry.iter().map(|(member, value)| (member.clone(), plain(&to_item(value)))));
    if before.as_ref() == Some(&after) {
        return Ok(text.to_owned());
    }
    let others = remove(text, key, name)?.unwrap_or_default();
    Ok(appended(&others, &block(key, name, &after)))
}

/// The text without the table `[key.name]`; `None` if nothing is left.
pub fn remove(text: &str, key: &str, name: &str) -> Result<Option<String>, String> {
    let mut document = parse(text, key)?;
    let servers = document.get_mut(key).and_then(Item::as_table_mut);
    let Some(found) = servers.and_then(|servers| servers.remove(name)) else {
        return Ok(Some(text.to_owned()));
    };
    // As `set` appended it, whatever was appended after it.
    let block = block(key, name, &members(&found));
    let end = format!("\n\n{block}");
    let rest = match (text.strip_suffix(&end), text.split_once(&format!("{end}\n"))) {
        _ if text == appended("", &block) => String::new(),
        (Some(before), _) => before.to_owned(),
        (None, Some((before, after))) => format!("{before}\n{after}"),
        (None, None) => document.to_string(),
    };
    Ok((!rest.trim().is_empty()).then_some(rest))
}

/// The command and the first argument of `[key.name]`, if it exists.
pub fn command(text: &str, key: &str, name: &str) -> Result<Option<[String; 2]>, String> {
    let document = parse(text, key)?;
    let Some(entry) = document.get(key).and_then(|servers| servers.get(name)) else {
        return Ok(None);
    };
    let command = entry.get("command").and_then(Item::as_str);
    let first = entry.get("args").and_then(|args| args.as_array()?.get(0)?.as_str());
    Ok(Some([command, first].map(|it| it.unwrap_or_default().to_owned())))
}

fn parse(text: &str, key: &str) -> Result<DocumentMut, String> {
    // The message of the parser quotes the line.
    let document = text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        format!("line {} is not TOML", text[..start].matches('\n').count() + 1)
    })?;
    match document.get(key).is_some_and(|servers| !servers.is_table()) {
        true => Err(format!("`{key}` is not written as tables, [{key}.NAME]")),
        false => Ok(document),
    }
}

fn members(table: &Item) -> Map<String, Value> {
    let members = table.as_table_like().into_iter().flat_map(TableLike::iter);
    members.map(|(member, value)| (member.to_owned(), plain(value))).collect()
}

fn plain(item: &Item) -> Value {
    let value = item.clone().into_value().map(|value| value.to_string());
    value.unwrap_or_default().trim().into()
}

fn block(key: &str, name: &str, members: &Map<String, Value>) -> String {
    let line = |(member, value): (&String, &Value)| {
        format!("\n{member} = {}", value.as_str().unwrap_or_default())
    };
    format!("[{key}.{name}]{}", members.iter().map(line).collect::<String>())
}

/// A file without a newline at its end gets none, so that `remove` restores it.
fn appended(text: &str, block: &str) -> String {
    match text {
        "" => format!("{block}\n"),
        _ if text.ends_with('\n') => format!("{text}\n{block}\n"),
        _ => format!("{text}\n\n{block}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> String {
        let entry = r#"{"command": "/bin/svc", "args": ["mcp"]}"#;
        set(text, "servers", "svc", &serde_json::from_str(entry).expect("JSON")).expect("set")
    }

    #[test]
    fn what_was_added_is_removed_to_the_byte() {
        let block = "[servers.svc]\ncommand = \"/bin/svc\"\nargs = [\"mcp\"]";
        for before in ["", "a = 1", "a = 1\n", "# a\n\n[servers.b]\nx = 1 # why\n", "[servers]\n"] {
            let after = added(before);
            assert!(after.contains(block), "{after}");
            assert_eq!(added(&after), after);
            let restored = remove(&after, "servers", "svc").expect("removed").unwrap_or_default();
            assert_eq!(restored, before);
            let later = format!("{after}\n\n[later]\n");
            let restored = remove(&later, "servers", "svc").expect("removed").expect("a rest");
            assert!(restored.contains("[later]\n") && !restored.contains("svc"), "{restored}");
        }
    }

    #[test]
    fn an_entry_keeps_what_a_person_added() {
        let text = "[servers.svc]\ncommand = \"old\" # mine\nenabled = true\n\n[servers.svc.env]\nA = \"b\"\n";
        let after = added(text);
        assert_eq!(after, added(&after));
        let lines =
            "command = \"/bin/svc\"\nenabled = true\nenv = { A = \"b\" }\nargs = [\"mcp\"]\n";
        assert_eq!(after, format!("[servers.svc]\n{lines}"));
        assert_eq!(remove(&after, "servers", "svc"), Ok(None));
        assert_eq!(remove(text, "servers", "svc"), Ok(None));
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| set(text, "servers", "svc", &Map::new()).expect_err("refused");
        assert_eq!(problem("a = 1\nkey = secret\n"), "line 2 is not TOML");
        for servers in ["servers = 1\n", "servers = { a = {} }\n", "[[servers]]\n"] {
            assert_eq!(problem(servers), "`servers` is not written as tables, [servers.NAME]");
        }
    }
}
