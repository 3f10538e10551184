//! What a template may contain, so that neither reading nor rendering it can take all
//! memory or the whole stack (`docs/undocumented/email-service.md#templates`).
//!
//! The template engine counts steps but not bytes. A value can only grow without bound
//! if a template binds a name to a larger value than before, again and again. The rules
//! here therefore allow operators that make values larger where a value is printed, a
//! few at a time, and not where a name is bound.

use super::TemplateError;

/// Maximum size of one part of a template, in bytes.
pub(super) const MAX_SIZE: usize = 256 * 1024;
/// Maximum size of one tag, such as `{{ name }}`, in bytes.
const MAX_TAG: usize = 1024;
const MAX_TAGS: usize = 2_000;
/// Maximum number of `elif`, each of which nests the next one.
const MAX_ELIF: usize = 100;
/// Maximum number of `~` and `+` in one tag.
const MAX_JOINS: usize = 20;
/// Maximum number of signs and `not` in one tag, each of which nests what follows.
const MAX_SIGNS: usize = 50;
/// The filters that may follow a multiplication: `*` also repeats strings and lists.
const NUMERIC: [&str; 7] = ["round", "int", "float", "abs", "default", "d", "safe"];

/// How many times as long as a copy of a text the slice of it takes: it goes from one character
/// to the next.
const SLICE_COST: usize = 8;

/// Checks a template against the bounds. Returns the largest number of `~` and `+` in a tag, and
/// what its slices take as much time as.
pub(super) fn check(template: &str) -> Result<usize, TemplateError> {
    if template.len() > MAX_SIZE {
        return Err(TemplateError::TooLarge);
    }
    let (mut tags, mut elifs, mut joins) = (0, 0, 0);
    let mut rest = template;
    while let Some(at) =
        rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min()
    {
        let line = template[..template.len() - rest.len() + at].matches('\n').count() + 1;
        let refused = |rule| Err(TemplateError::Refused { line, rule });
        let (open, inside) = rest[at..].split_at(2);
        if open == "{#" {
            let Some(end) = inside.find("#}") else { return Ok(joins) };
            rest = &inside[end + 2..];
            continue;
        }
        let close = if open == "{{" { "}}" } else { "%}" };
        let tokens = Tokens::read(inside, close);
        rest = &inside[tokens.length..];
        tags += 1;
        if tags > MAX_TAGS {
            return refused(Rule::Tags);
        }
        if tokens.length > MAX_TAG {
            return refused(Rule::TagSize);
        }
        let word = if open == "{%" { tokens.first_word() } else { "" };
        match word {
            "raw" | "verbatim" => {
                // Nothing up to the end of the block is a tag.
                let Some(end) = rest.find("endraw").or_else(|| rest.find("endverbatim")) else {
                    return Ok(joins);
                };
                rest = &rest[end..];
            }
            "elif" => elifs += 1,
            _ => {}
        }
        if elifs > MAX_ELIF {
            return refused(Rule::Elif);
        }
        tokens.check(word).or_else(|rule| refused(rule).map(drop))?;
        joins = joins.max(tokens.joins + SLICE_COST * tokens.slices);
    }
    Ok(joins)
}

/// A bound that a template exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rule {
    #[error("at most {MAX_TAGS} tags are allowed")]
    Tags,
    #[error("a tag may have at most {MAX_TAG} bytes")]
    TagSize,
    #[error("at most {MAX_ELIF} elif are allowed")]
    Elif,
    #[error("a tag may contain at most {MAX_JOINS} times ~ or +, and at most {MAX_SIGNS} signs")]
    Operators,
    #[error("a tag may contain * once, and then only filters for numbers, such as round")]
    Repetition,
    #[error("a name can be bound to a variable, a text or a list of texts, without ~, + and *")]
    Binding,
    #[error("set without =, filter blocks and recursive loops are not supported")]
    Block,
}

/// The tokens of one tag that matter here. Literals are left out.
struct Tokens<'t> {
    words: Vec<&'t str>,
    /// The words that follow a `|`.
    filters: Vec<&'t str>,
    joins: usize,
    signs: usize,
    stars: usize,
    /// Number of `:`, which slices contain.
    slices: usize,
    assigns: bool,
    /// Whether a list, map or group contains a name.
    composes: bool,
    /// Bytes up to and including the end of the tag.
    length: usize,
}

impl<'t> Tokens<'t> {
    fn read(inside: &'t str, close: &str) -> Self {
        let mut tokens = Tokens {
            words: Vec::new(),
            filters: Vec::new(),
            joins: 0,
            signs: 0,
            stars: 0,
            slices: 0,
            assigns: false,
            composes: false,
            length: inside.len(),
        };
        let bytes = inside.as_bytes();
        // For each open bracket, whether it begins a value instead of a subscript or a call.
        let mut brackets: Vec<bool> = Vec::new();
        let (mut at, mut after_value, mut after_pipe) = (0, false, false);
        while at < bytes.len() {
            if inside[at..].starts_with(close) && brackets.is_empty() || at > 4 * MAX_TAG {
                tokens.length = at + 2;
                break;
            }
            let start = at;
            at += 1;
            match bytes[start] {
                quote @ (b'"' | b'\'') => {
                    while at < bytes.len() && bytes[at] != quote {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                    while at < bytes.len() && !inside.is_char_boundary(at) {
                        at += 1;
                    }
                    (after_value, after_pipe) = (true, false);
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii() => {
                    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii();
                    at = start + bytes[start..].iter().take_while(|b| is_word(b)).count();
                    let word = &inside[start..at];
                    if !byte.is_ascii_digit() {
                        if after_pipe {
                            tokens.filters.push(word);
                        }
                        if word == "not" {
                            tokens.signs += 1;
                        }
                        let is_name =
                            !matches!(word, "true" | "false" | "none" | "True" | "False" | "None");
                        tokens.composes |= is_name && brackets.contains(&true);
                        tokens.words.push(word);
                    }
                    let operators = ["in", "not", "and", "or", "if", "else", "is"];
                    (after_value, after_pipe) = (!operators.contains(&word), false);
                }
                byte @ (b'(' | b'[' | b'{') => {
                    brackets.push(!after_value && byte != b'(');
                    (after_value, after_pipe) = (false, false);
                }
                b')' | b']' | b'}' => {
                    brackets.pop();
                    (after_value, after_pipe) = (true, false);
                }
                b'|' => after_pipe = true,
                byte if byte.is_ascii_whitespace() => {}
                byte => {
                    match byte {
                        b'~' => tokens.joins += 1,
                        b'+' => (tokens.joins, tokens.signs) = (tokens.joins + 1, tokens.signs + 1),
                        b'-' => tokens.signs += 1,
                        b'*' => tokens.stars += 1,
                        b':' => tokens.slices += 1,
                        b'=' => tokens.assigns = true,
                        _ => {}
                    }
                    (after_value, after_pipe) = (false, false);
                }
            }
        }
        tokens.length = tokens.length.min(inside.len());
        while !inside.is_char_boundary(tokens.length) {
            tokens.length += 1;
        }
        tokens
    }

    fn first_word(&self) -> &'t str {
        self.words.first().copied().unwrap_or_default()
    }

    fn check(&self, word: &str) -> Result<(), Rule> {
        if self.joins > MAX_JOINS || self.signs > MAX_SIGNS {
            return Err(Rule::Operators);
        }
        if self.stars > 1
            || self.stars == 1 && self.filters.iter().any(|name| !NUMERIC.contains(name))
        {
            return Err(Rule::Repetition);
        }
        match word {
            "set" if !self.assigns => Err(Rule::Block),
            "filter" => Err(Rule::Block),
            "for" if self.words.contains(&"recursive") => Err(Rule::Block),
            "set" | "with" | "for" if self.joins > 0 || self.stars > 0 || self.composes => {
                Err(Rule::Binding)
            }
            _ => Ok(()),
        }
    }
}
