//! Edits one table of a TOML file, of which all other bytes stay.

use serde_json::Value;
use toml_edit::{DocumentMut, Item, TableLike};

use crate::settings::table::to_item;

/// The text with the table `[key.name]`. Other entries of the table stay.
pub fn set(text: &str, key: &str, name: &str, entry: &Value) -> Result<String, String> {
    let mut document = parse(text, key)?;
    let members = entry.as_object().into_iter().flatten();
    let members = members.map(|(member, value)| (member.as_str(), to_item(value)));
    let Some(servers) = document.get_mut(key).and_then(Item::as_table_like_mut) else {
        return Ok(appended(text, &block(key, name, members)));
    };
    if let Some(found) = servers.get_mut(name) {
        let found = found.as_table_like_mut();
        let found = found.ok_or_else(|| format!("`{key}.{name}` is not a table"))?;
        let mut is_same = true;
        for (member, value) in members {
            let before = found.get(member).map(plain);
            if before != Some(plain(&value)) {
                found.insert(member, value);
                is_same = false;
            }
        }
        return Ok(if is_same { text.to_owned() } else { document.to_string() });
    }
    if document.get(key).is_some_and(Item::is_inline_table) {
        let table = members.filter_map(|(member, value)| Some((member, value.into_value().ok()?)));
        document[key][name] = toml_edit::value(table.collect::<toml_edit::InlineTable>());
        return Ok(document.to_string());
    }
    Ok(appended(text, &block(key, name, members)))
}

/// The text without the table `[key.name]`; `None` if nothing is left.
pub fn remove(text: &str, key: &str, name: &str) -> Result<Option<String>, String> {
    let mut document = parse(text, key)?;
    let servers = document.get_mut(key).and_then(Item::as_table_like_mut);
    let Some((servers, found)) =
        servers.and_then(|it| it.get(name).cloned().map(|found| (it, found)))
    else {
        return Ok(Some(text.to_owned()));
    };
    let members = found.as_table_like().into_iter().flat_map(TableLike::iter);
    let block = block(key, name, members.map(|(member, value)| (member, value.clone())));
    if text == appended("", &block) {
        return Ok(None);
    }
    // As `set` appended it, whatever was appended after it.
    let before = text.strip_suffix(&format!("\n\n{block}")).map(str::to_owned);
    let within = format!("\n\n{block}\n");
    let before = before.or_else(|| text.contains(&within).then(|| text.replacen(&within, "\n", 1)));
    if let Some(before) = before {
        return Ok(Some(before));
    }
    servers.remove(name);
    let rest = document.to_string();
    Ok((!rest.trim().is_empty()).then_some(rest))
}

fn parse(text: &str, key: &str) -> Result<DocumentMut, String> {
    // The message of the parser quotes the line.
    let document = text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        format!("line {} is not TOML", text[..start].matches('\n').count() + 1)
    })?;
    match document.get(key).is_some_and(|item| !item.is_table_like()) {
        true => Err(format!("`{key}` is not a table")),
        false => Ok(document),
    }
}

fn block<'a>(key: &str, name: &str, members: impl Iterator<Item = (&'a str, Item)>) -> String {
    let lines = members.map(|(member, value)| format!("\n{member} = {}", plain(&value)));
    format!("[{key}.{name}]{}", lines.collect::<String>())
}

fn plain(item: &Item) -> String {
    item.to_string().trim().to_owned()
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
    use serde_json::json;

    use super::*;

    fn added(text: &str) -> String {
        set(text, "servers", "svc", &json!({"command": "/bin/svc", "args": ["mcp"]})).expect("set")
    }

    #[test]
    fn what_was_added_is_removed_to_the_byte() {
        let block = "[servers.svc]\ncommand = \"/bin/svc\"\nargs = [\"mcp\"]";
        for before in
            ["", "a = 1", "a = 1\n", "# a\n\n[servers.b]\nx = 1 # why\n", "[servers]\n", "\n\n"]
        {
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
        let text = "[servers.svc]\ncommand = \"old\" # mine\nargs = [ \"mcp\" ]\nenabled = true\n";
        let after = added(text);
        assert_eq!(after, added(&after));
        for kept in ["enabled = true", "/bin/svc"] {
            assert!(after.contains(kept), "{after}");
        }
        assert_eq!(remove(&after, "servers", "svc"), Ok(None));
        let inline = added("servers = { a = { command = \"a\" } }\n");
        assert!(inline.contains("svc = { command = \"/bin/svc\", args = [\"mcp\"] }"), "{inline}");
        let restored = remove(&inline, "servers", "svc").expect("removed").expect("a rest");
        assert!(!restored.contains("svc"), "{restored}");
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| set(text, "servers", "svc", &json!({})).expect_err("refused");
        assert_eq!(problem("a = 1\nkey = secret\n"), "line 2 is not TOML");
        assert_eq!(problem("servers = 1\n"), "`servers` is not a table");
        assert_eq!(problem("servers.svc = 1\n"), "`servers.svc` is not a table");
    }
}
