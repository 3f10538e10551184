//! Candidates for a JSON body whose keys were sorted or reordered.

use serde_json::ser::CompactFormatter;
use serde_json::{Map, Value};

use super::body::{Spaced, serialize};

/// Maximum number of orders to try.
const MAX_ORDERS: u64 = 20_000;
/// Maximum number of bytes to hash.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The body with the keys of all objects in every order. If these are too many, with those
/// of the outermost object in every order.
pub(super) fn candidates(body: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let max = MAX_ORDERS.min(MAX_BYTES / (body.len() as u64).max(1));
    let all = orders(&value);
    let outermost = value.as_object().map_or(1, |map| factorial(map.len()));
    let (count, nested) = match () {
        () if all <= max => (all, true),
        () if outermost <= max => (outermost, false),
        () => (0, false),
    };
    (0..count).flat_map(move |number| {
        let value = reorder(&value, &mut { number }, nested);
        let layouts = [serialize(&value, CompactFormatter), serialize(&value, Spaced)];
        layouts.into_iter().flatten().map(String::into_bytes)
    })
}

/// The number of orders of the keys of all objects.
fn orders(value: &Value) -> u64 {
    match value {
        Value::Object(map) => {
            map.values().map(orders).fold(factorial(map.len()), u64::saturating_mul)
        }
        Value::Array(items) => items.iter().map(orders).fold(1, u64::saturating_mul),
        _ => 1,
    }
}

fn factorial(n: usize) -> u64 {
    (1..=n as u64).fold(1, u64::saturating_mul)
}

/// The value in the order with the given number. Each choice of a key takes its part of
/// the number.
fn reorder(value: &Value, number: &mut u64, nested: bool) -> Value {
    match value {
        Value::Object(map) => {
            let mut left: Vec<_> = map.iter().collect();
            let mut reordered = Map::new();
            while !left.is_empty() {
                let count = left.len() as u64;
                let at = usize::try_from(*number % count).unwrap_or(0);
                *number /= count;
                let (key, value) = left.remove(at);
                let value = if nested { reorder(value, number, nested) } else { value.clone() };
                reordered.insert(key.clone(), value);
            }
            Value::Object(reordered)
        }
        Value::Array(items) => items.iter().map(|item| reorder(item, number, nested)).collect(),
        other => other.clone(),
    }
}
