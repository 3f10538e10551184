//! Edits one table of a TOML file, of which everything else stays.

use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item, Table};

use super::NAME;
use crate::settings::table::to_item;

/// Sets the table `[key.NAME]`, of which other entries stay, or removes it. Returns the text, and what
/// was there.
pub fn edit(
    text: &str,
    key: &str,
    entry: Option<&Map<String, Value>>,
) -> Result<(String, Option<Value>), String> {
    // The message of the parser quotes the line.
    let mut document = text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        format!(
            "line {} is not TOML",
            text[..start].matches('\n').count() + 1
        )
    })?;
    let mut new = Table::new();
    new.set_implicit(true);
    let servers = document.entry(key).or_insert(new.into()).as_table_mut();
    let servers =
        servers.ok_or_else(|| format!("`{key}` is not written as tables, [{key}.NAME]"))?;
    let before = servers.get(NAME).map(|server| {
        let first = server
            .get("args")
            .and_then(|args| args.as_array()?.get(0)?.as_str());
        json!({"command": server.get("command").and_then(Item::as_str), "args": [first]})
    });
    match entry {
        Some(entry) => {
            let server = servers.entry(NAME).or_insert(Table::new().into());
            for (member, value) in entry {
                let item = to_item(value);
                if server
                    .get(member)
                    .is_none_or(|found| plain(found) != plain(&item))
                {
                    server[member] = item;
                }
            }
        }
        None if servers.remove(NAME).is_none() => return Ok((text.to_owned(), None)),
        None => {}
    }
    Ok((document.to_string(), before))
}

fn plain(item: &Item) -> String {
    item.to_string().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> String {
        let entry = r#"{"command": "/bin/svc", "args": ["mcp"]}"#;
        let entry = serde_json::from_str(entry).expect("JSON");
        edit(text, "servers", Some(&entry)).expect("set").0
    }

    fn removed(text: &str) -> String {
        edit(text, "servers", None).expect("removed").0
    }

    #[test]
    fn what_was_added_is_removed_again() {
        let block = "[servers.svc]\ncommand = \"/bin/svc\"\nargs = [\"mcp\"]\n";
        for before in [
            "",
            "a = 1\n",
            "# a\n\n[servers.b]\nx = 1 # why\n\n[c]\n",
            "[servers]\n",
        ] {
            let after = added(before);
            assert!(after.contains(block), "{after}");
            assert_eq!(added(&after), after);
            assert_eq!(removed(&after), before);
            let later = format!("{after}\n[later]\n");
            let rest = removed(&later);
            assert!(
                rest.contains("[later]\n") && !rest.contains("svc"),
                "{rest}"
            );
        }
    }

    #[test]
    fn an_entry_keeps_what_a_person_added() {
        let text = "[servers.svc]\ncommand = \"old\"\nenabled = true # mine\n\n[servers.svc.env]\nA = \"b\"\n";
        let after = added(text);
        assert_eq!(after, added(&after));
        let lines = "command = \"/bin/svc\"\nenabled = true # mine\nargs = [\"mcp\"]\n";
        assert_eq!(
            after,
            format!("[servers.svc]\n{lines}\n[servers.svc.env]\nA = \"b\"\n")
        );
        assert_eq!(removed(&after), "");
    }

    #[test]
    fn a_wrong_file_is_described_without_its_content() {
        let problem = |text: &str| edit(text, "servers", Some(&Map::new())).expect_err("refused");
        assert_eq!(problem("a = 1\nkey = secret\n"), "line 2 is not TOML");
        for servers in ["servers = 1\n", "servers = { a = {} }\n", "[[servers]]\n"] {
            assert_eq!(
                problem(servers),
                "`servers` is not written as tables, [servers.NAME]"
            );
        }
    }
}
