//! What a template may contain, so that neither reading nor rendering it can take all
//! memory or the whole stack (`docs/undocumented/email-service.md#templates`).
//!
//! The template engine counts steps but not bytes. A value can only grow without bound
//! if a template binds a name to a larger value than before, again and again. Operators that
//! make values larger are therefore allowed where a value is printed, a few at a time, and not
//! where a name is bound.

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
/// How many times as long as a copy of a text the slice of it takes: it goes from one character
/// to the next.
const SLICE_COST: usize = 8;

/// Checks a template against the bounds. Returns the largest number of `~` and `+` in a tag, and
/// what its slices take as much time as.
pub(super) fn check(template: &str) -> Result<usize, TemplateError> {
    if template.len() > MAX_SIZE {
        return Err(TemplateError::TooLarge);
    }
    let (mut tags, mut elifs, mut cost) = (0, 0, 0);
    let mut rest = template;
    while let Some(at) = ["{{", "{%", "{#"].into_iter().filter_map(|open| rest.find(open)).min() {
        let line = template[..template.len() - rest.len() + at].matches('\n').count() + 1;
        let (open, inside) = rest[at..].split_at(2);
        if open == "{#" {
            let Some((_, after)) = inside.split_once("#}") else { break };
            rest = after;
            continue;
        }
        let tag = Tag::read(inside, if open == "{{" { "}}" } else { "%}" });
        rest = &inside[tag.length..];
        let words = tag.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut words = words.filter(|word| !word.is_empty());
        let word = if open == "{%" { words.next().unwrap_or_default() } else { "" };
        (tags, elifs) = (tags + 1, elifs + usize::from(word == "elif"));
        let count = |wanted: &str| tag.code.chars().filter(|c| wanted.contains(*c)).count();
        let joins = count("~+");
        let binds = matches!(word, "set" | "with" | "for");
        let rule = if tags > MAX_TAGS || elifs > MAX_ELIF {
            Some(Rule::Tags)
        } else if tag.length > MAX_TAG {
            Some(Rule::TagSize)
        } else if word == "filter"
            || word == "set" && count("=") == 0
            || words.any(|word| word == "recursive")
        {
            Some(Rule::Block)
        } else if binds && (count("~+*") > 0 || tag.composes) {
            Some(Rule::Binding)
        } else if joins > MAX_JOINS || count("-") > MAX_JOINS || count("*") > 1 {
            Some(Rule::Operators)
        } else {
            None
        };
        if let Some(rule) = rule {
            return Err(TemplateError::Refused { line, rule });
        }
        cost = cost.max(joins + SLICE_COST * count(":"));
        if matches!(word, "raw" | "verbatim") {
            // Nothing up to the end of the block is a tag.
            let end = rest.find("endraw").or_else(|| rest.find("endverbatim"));
            rest = &rest[end.unwrap_or(rest.len())..];
        }
    }
    Ok(cost)
}

/// A bound that a template exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rule {
    #[error("at most {MAX_TAGS} tags and {MAX_ELIF} elif are allowed")]
    Tags,
    #[error("a tag may have at most {MAX_TAG} bytes")]
    TagSize,
    #[error("a tag may contain * once, and at most {MAX_JOINS} times ~ or +, and -")]
    Operators,
    #[error("a name can be bound to a variable, a text or a list of texts, without ~, + and *")]
    Binding,
    #[error("set without =, filter blocks and recursive loops are not supported")]
    Block,
}

/// One tag, such as `{{ name }}`.
struct Tag {
    /// Its text without string literals.
    code: String,
    /// Whether a name is in brackets, as in `[a, a]`.
    composes: bool,
    /// Bytes up to and including the end of the tag.
    length: usize,
}

impl Tag {
    fn read(inside: &str, close: &str) -> Self {
        let mut tag = Self { code: String::new(), composes: false, length: inside.len() };
        let (mut quote, mut escaped, mut brackets) = (None, false, 0_usize);
        for (at, letter) in inside.char_indices() {
            if let Some(end) = quote {
                quote = Some(end).filter(|end| escaped || letter != *end);
                escaped = !escaped && letter == '\\';
                continue;
            }
            if brackets == 0 && inside[at..].starts_with(close) {
                tag.length = at + close.len();
                break;
            }
            match letter {
                '"' | '\'' => quote = Some(letter),
                '[' | '{' => brackets += 1,
                ']' | '}' => brackets = brackets.saturating_sub(1),
                _ => tag.composes |= brackets > 0 && letter.is_alphabetic(),
            }
            tag.code.push(letter);
        }
        tag
    }
}
