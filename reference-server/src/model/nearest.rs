//! Suggestions for a misspelt name or path.

/// From which similarity a name is suggested.
const SIMILAR: f64 = 0.8;
/// No known name is longer. The time that a comparison takes grows with the length.
const MAX_NAME: usize = 100;

/// The end of an error message about an unknown name: the most similar known one, if any is similar
/// enough.
pub(crate) fn did_you_mean<T: AsRef<str>>(
    name: &str,
    known: impl IntoIterator<Item = T>,
) -> String {
    best(known, |known| similarity(name, known))
}

/// Like [`did_you_mean`], for a path. A parameter of a known one, in braces, is similar to
/// everything, and what precedes the resource is not compared.
pub(crate) fn did_you_mean_path<'a>(
    path: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let path = segments(path);
    best(known, |known| {
        let known = segments(known);
        let pairs = path.iter().zip(&known).map(|(one, known)| {
            if known.starts_with('{') {
                1.0
            } else {
                similarity(one, known)
            }
        });
        if path.len() == known.len() {
            pairs.fold(1.0, f64::min)
        } else {
            0.0
        }
    })
}

/// The first one of the best.
fn best<T: AsRef<str>>(
    known: impl IntoIterator<Item = T>,
    similarity: impl Fn(&str) -> f64,
) -> String {
    let similar = known
        .into_iter()
        .map(|known| (similarity(known.as_ref()), known));
    let similar = similar.filter(|(similarity, _)| *similarity >= SIMILAR);
    let best = similar.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or_else(String::new, |(_, known)| {
        format!("; did you mean {}?", known.as_ref())
    })
}

fn segments(path: &str) -> Vec<&str> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments
        .skip_while(|segment| ["api", "v1", "_sandbox"].contains(segment))
        .collect()
}

fn similarity(one: &str, other: &str) -> f64 {
    if one.len() > MAX_NAME {
        return 0.0;
    }
    strsim::jaro(&one.to_lowercase(), &other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_was_probably_meant() {
        let scopes = ["emails:send", "emails:read", "contacts:manage"];
        assert_eq!(
            did_you_mean("email:send", scopes),
            "; did you mean emails:send?"
        );
        assert_eq!(did_you_mean("everything", scopes), "");
        assert_eq!(did_you_mean(&"emails:send".repeat(1 << 20), scopes), "");
        let paths = [
            "/api/v1/emails",
            "/api/v1/emails/{id}",
            "/_sandbox/emails",
            "/_sandbox/keys",
        ];
        for (path, meant) in [
            ("/api/v1/email", "; did you mean /api/v1/emails?"),
            ("/emails/eml_1", "; did you mean /api/v1/emails/{id}?"),
            ("/_sandbox/keyz/", "; did you mean /_sandbox/keys?"),
            ("/_sandbox/clocks", ""),
            ("/", ""),
        ] {
            assert_eq!(did_you_mean_path(path, paths), meant, "{path}");
        }
    }
}
