//! Values with parameters, such as that of `Content-Type`, with the pieces and charsets of RFC 2231.

use percent_encoding::percent_decode;

use super::{charset, words};

/// A value with parameters.
#[derive(Default)]
pub(super) struct Parameterized {
    /// In lower case, without comments.
    pub(super) value: String,
    parameters: Vec<Parameter>,
}

struct Parameter {
    name: String,
    /// The position of a piece, and whether it is percent-encoded; `None` for a whole value.
    piece: Option<(u32, bool)>,
    value: Vec<u8>,
}

impl Parameterized {
    /// Reads the value of a field.
    pub(super) fn read(field: &[u8]) -> Self {
        let mut is_quoted = false;
        let mut is_escaped = false;
        let mut items = field.split(move |&byte| {
            let was_escaped = std::mem::take(&mut is_escaped);
            match byte {
                b'\\' if is_quoted => is_escaped = !was_escaped,
                b'"' if !was_escaped => is_quoted = !is_quoted,
                b';' => return !is_quoted,
                _ => {}
            }
            false
        });
        let value = String::from_utf8_lossy(items.next().unwrap_or_default()).to_lowercase();
        let value = value.split('(').next().unwrap_or_default();
        let value = value.replace(" /", "/").replace("/ ", "/");
        Self {
            value: value
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .replace('"', ""),
            parameters: items.filter_map(Parameter::read).collect(),
        }
    }

    /// The decoded value of a parameter. Text without a charset may be in that of what is around it.
    pub(super) fn get(&self, name: &str, around: &str) -> Option<String> {
        let named = || {
            self.parameters
                .iter()
                .filter(|parameter| parameter.name == name)
        };

        let mut pieces: Vec<_> = named()
            .filter_map(|one| Some((one.piece?, &one.value[..])))
            .collect();
        pieces.sort_by_key(|((position, _), _)| *position);
        if pieces.is_empty() {
            let whole = named().next()?;
            return Some(words::decode(&charset::undeclared(&whole.value, around)));
        }

        let mut label = String::new();
        let mut bytes = Vec::new();
        for (number, ((_, is_encoded), mut value)) in pieces.into_iter().enumerate() {
            if !is_encoded {
                bytes.extend_from_slice(value);
                continue;
            }
            let mut parts = value.splitn(3, |&byte| byte == b'\'');
            if number == 0
                && let [Some(charset), Some(_), Some(text)] = [(); 3].map(|()| parts.next())
            {
                label = String::from_utf8_lossy(charset).into_owned();
                value = text;
            }
            bytes.extend(percent_decode(value));
        }

        match label.as_str() {
            "" => Some(words::decode(&charset::undeclared(&bytes, around))),
            label => Some(charset::decode(&bytes, label)),
        }
    }
}

impl Parameter {
    fn read(item: &[u8]) -> Option<Self> {
        let equals = item.iter().position(|&byte| byte == b'=')?;
        let name = String::from_utf8_lossy(item[..equals].trim_ascii()).to_lowercase();
        let (base, star) = name
            .split_once('*')
            .map_or((&*name, None), |(base, s)| (base, Some(s)));
        let piece = star.map(|star| {
            let position = star.trim_end_matches('*').parse().unwrap_or(0);
            (position, star.is_empty() || star.ends_with('*'))
        });
        Some(Self {
            name: base.to_owned(),
            piece,
            value: unquoted(item[equals + 1..].trim_ascii()),
        })
    }
}

fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return value.to_vec();
    };

    let mut unquoted = Vec::with_capacity(inner.len());
    let mut rest = inner;
    loop {
        match rest {
            [b'\\', escaped @ (b'"' | b'\\'), after @ ..] => {
                unquoted.push(*escaped);
                rest = after;
            }
            [] | [b'"', ..] => return unquoted,
            [byte, after @ ..] => {
                unquoted.push(*byte);
                rest = after;
            }
        }
    }
}
