//! Bounds of JSON in a response: how deep it is nested, and how much memory it takes once it is parsed.
//! The memory is estimated before anything is parsed; `tests/memory.rs` measures it.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 64;

/// A response takes at most so many times its size in memory: parsed and beside its text.
const MEMORY_PER_BYTE: usize = 12;

/// The part of it for the parsed values. The rest is for the text, and for what is read from the values.
const VALUES_PER_BYTE: usize = 9;

/// So much memory, in bytes, is allowed for any response.
const MIN_MEMORY: usize = 4 << 20;

/// The use of the values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Kept as they are, or read item by item.
    Once,
    /// Read as one resource, which is looked for in the objects inside, each of which is
    /// copied.
    Resource,
}

/// How often the fields of a resource are in memory: parsed, between, and read.
const OF_RESOURCE: usize = 3;

/// The same within the objects that are looked into, at most.
const MAX_COPIES: usize = 8;

/// The memory of an item of a list that is read as a resource although it is not an object.
const EMPTY_RESOURCE: usize = 512;

/// An array or an object that is not closed yet.
struct Container {
    is_map: bool,
    entries: usize,
    /// How many of the entries are arrays or objects.
    containers: usize,
    /// Whether it is in an array, whose items are not looked into.
    is_in_array: bool,
    /// How often its content is in memory.
    copies: usize,
}

/// Refuses JSON, and says why, that is nested too deep, or would take far more memory than its text, such as many
/// small arrays.
pub(crate) fn check_bounds(json: &[u8], reading: Reading) -> Result<(), String> {
    let most = MIN_MEMORY.max(json.len() * VALUES_PER_BYTE);
    let mut open = Vec::<Container>::new();
    let mut memory = 0;
    let mut largest_copy = 0;
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in json {
        if is_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_text = false,
                _ => {}
            }
            memory += open.last().map_or(1, |container| container.copies);
            continue;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b':' => continue,
            b']' | b'}' => {
                if let Some(closed) = open.pop() {
                    memory += closed.copies * closed.memory();
                    largest_copy = largest_copy.max(closed.memory() / 2);
                }
                continue;
            }
            b',' => {
                if let Some(container) = open.last_mut() {
                    container.entries += 1;
                }
                continue;
            }
            _ => {}
        }
        // A value, or a part of one, begins here.
        if let Some(container) = open.last_mut() {
            container.entries = container.entries.max(1);
        }
        match byte {
            b'"' => is_text = true,
            b'[' | b'{' if open.len() == MAX_DEPTH => {
                return Err(format!("JSON nested deeper than {MAX_DEPTH} levels"));
            }
            b'[' | b'{' => {
                if let Some(container) = open.last_mut() {
                    container.containers += 1;
                }
                open.push(Container::new(*byte == b'{', open.last(), reading));
            }
            _ => {}
        }
        if memory > most {
            break;
        }
    }

    // An array that grows is copied.
    if memory + largest_copy > most {
        Err(format!(
            "JSON that would take more than {MEMORY_PER_BYTE} times its size in memory"
        ))
    } else {
        Ok(())
    }
}

impl Container {
    fn new(is_map: bool, parent: Option<&Self>, reading: Reading) -> Self {
        let is_in_array = parent.is_some_and(|parent| parent.is_in_array || !parent.is_map);
        let is_copied = reading == Reading::Resource && !is_in_array && is_map;
        let copies = match parent {
            None if reading == Reading::Once => 1,
            None => OF_RESOURCE,
            Some(parent) if is_copied => MAX_COPIES.min(parent.copies + 1),
            Some(parent) => parent.copies,
        };
        Self {
            is_map,
            entries: 0,
            containers: 0,
            is_in_array,
            copies,
        }
    }

    /// The size in memory, without that of the entries.
    fn memory(&self) -> usize {
        const VALUE: usize = size_of::<Value>();
        const ENTRY: usize = size_of::<String>() + VALUE;
        // With the feature `preserve_order` of serde_json, a map is a table with a list of its
        // entries. Otherwise it is a tree, whose nodes have room for eleven and may be half full.
        const IS_TABLE: bool = size_of::<Map<String, Value>>() > size_of::<Vec<Value>>();
        const NODE: usize = 11 * ENTRY + 16;

        if self.entries == 0 {
            return 0;
        }
        if !self.is_map {
            let values = VALUE * self.entries.next_power_of_two().max(4);
            let is_list = self.copies == 1 && !self.is_in_array;
            let resources = if is_list {
                self.entries - self.containers
            } else {
                0
            };
            return values + EMPTY_RESOURCE * resources;
        }
        if !IS_TABLE {
            return NODE * self.entries.div_ceil(6);
        }

        let buckets = (self.entries * 8).div_ceil(7).next_power_of_two().max(4);
        let capacity = buckets * 7 / 8;
        capacity * (ENTRY + size_of::<usize>()) + buckets * 9 + 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(json: &str) -> bool {
        check_bounds(json.as_bytes(), Reading::Resource).is_ok()
    }

    #[test]
    fn depth_and_memory_are_bounded() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_allowed(&nested(64)));
        assert!(!is_allowed(&nested(65)));
        for item in ["[]", "[[]]", "{}", "{\"a\":1}", "0", "\"\""] {
            let many = format!("[{}{item}]", format!("{item},").repeat(2_000_000));
            assert!(!is_allowed(&many), "{item}");
            let few = format!("[{}{item}]", format!("{item},").repeat(1_000));
            assert!(is_allowed(&few), "{item}");
        }
    }

    #[test]
    fn texts_and_usual_records_have_room() {
        // Brackets and commas in texts are not values.
        assert!(is_allowed(&format!(
            "[\"{}\\\"[\"]",
            "[,".repeat(4_000_000)
        )));
        let contact = r#"{"id":"con_019a0b1c2d3e4f","email":"ada.lovelace@example.test","name":"Ada Lovelace","subscribed":true,"createdAt":"2026-01-05T09:00:00Z","metadata":{"plan":"pro"}},"#;
        let contacts = format!("{{\"data\":[{}null]}}", contact.repeat(100_000));
        assert!(check_bounds(contacts.as_bytes(), Reading::Once).is_ok());
    }
}
