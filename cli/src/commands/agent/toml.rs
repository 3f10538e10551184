//! Edits one table of a TOML file, of which everything else stays.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table};

use super::NAME;
use crate::settings::table::to_item;

/// The text with the table `[key.NAME]`. Other entries of the table stay.
pub fn set(text: &str, key: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let mut document = parse(text)?;
    let server = servers(&mut document, key)?.entry(NAME).or_insert(Table::new().into());
    for (member, value) in entry {
        let item = to_item(value);
        if server.get(member).is_none_or(|found| plain(found) != plain(&item)) {
            server[member] = item;
        }
    }
    Ok(document.to_string())
}

/// The text without the table `[key.NAME]`.
pub fn remove(text: &str, key: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    match servers(&mut document, key)?.remove(NAME) {
        None => Ok(text.to_owned()),
        Some(_) => Ok(document.to_string()),
    }
}

/// The command and the first argument of `[key.NAME]`, if it exists.
pub fn command(text: &str, key: &str) -> Result<Option<[String; 2]>, String> {
    let mut document = parse(text)?;
    let server = servers(&mut document, key)?.get(NAME);
    Ok(server.map(|server| {
        let command = server.get("command").and_then(Item::as_str);
        let first = server.get("args").and_then(|args| args.as_array()?.get(0)?.as_str());
        [command, first].map(|it| it.unwrap_or_default().to_owned())
    }))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    // The message of the parser quotes the line.
    text.parse().map_err(|error: toml_edit::TomlError| {
        let start = error.span().map_or(0, |span| span.start);
        format!("line {} is not TOML", text[..start].matches('\n').count() + 1)
    })
}

/// The table with the servers, which is created if it is missing.
fn servers<'a>(document: &'a mut DocumentMut, key: &str) -> Result<&'a mut Table, String> {
    let mut new = Table::new();
    new.set_implicit(true);
    let servers = document.entry(key).or_insert(new.into()).as_table_mut();
    servers.ok_or_else(|| format!("`{key}` is not written as tables, [{key}.NAME]"))
}

fn plain(item: &Item) -> String {
    item.to_string().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> String {
        let entry = r#"{"command": "/bin/svc", "args": ["mcp"]}"#;
        set(text, "servers", &serde_json::from_str(entry).expect("JSON")).expect("set")
    }

    #[test]
    fn what_was_added_is_removed_again() {
        let block = "[servers.svc]\ncommand = \"/bin/svc\"\nargs = [\"mcp\"]\n";
        for before in ["", "a = 1\n", "# a\n\n[servers.b]\nx = 1 # why\n\n[c]\n", "[servers]\n"] {
            let after = added(before);
            assert!(after.contains(block), "{after}");
            assert_eq!(added(&after), after);
            assert_eq!(remove(&after, "servers").as_deref(), Ok(before));
            let later = format!("{after}\n[later]\n");
            let rest = remove(&later, "servers").expect("removed");
            assert!(rest.contains("[later]\n") && !rest.contains("svc"), "{rest}");
        }
    }

    #[test]
    fn an_entry_keeps_what_a_person_added() {
        let text = "[servers.svc]\ncommand = \"old\"\nenabled = true # mine\n\n[servers.svc.env]\nA = \"b\"\n";
        let after = added(text);
        assert_eq!(after, added(&after));
        let lines = "command = \"/bin/svc\"\nenabled = true # mine\nargs = [\"mcp\"]\n";
        assert_eq!(after, format!("[servers.svc]\n{lines}\n[servers.svc.env]\nA = \"b\"\n"));
        assert_eq!(remove(&after, "servers").as_deref(), Ok(""));
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| set(text, "servers", &Map::new()).expect_err("refused");
        assert_eq!(problem("a = 1\nkey = secret\n"), "line 2 is not TOML");
        for servers in ["servers = 1\n", "servers = { a = {} }\n", "[[servers]]\n"] {
            assert_eq!(problem(servers), "`servers` is not written as tables, [servers.NAME]");
        }
    }
}
