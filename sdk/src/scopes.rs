//! A set of scopes, stored as a bit mask.

use std::fmt;

use crate::Scope;

/// A set of [`Scope`]s, such as those of an API key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the set contains `scope`.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & bit(scope) != 0
    }

    /// Returns the set with `scope` added.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | bit(scope))
    }

    /// Iterates over the scopes, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.contains(*scope))
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

const fn bit(scope: Scope) -> u8 {
    1 << scope as u8
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Formats as `emails:read, webhooks:manage`, or as `none`.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, scope) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(scope.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_exactly_the_collected_scopes() {
        let scopes: Scopes = [Scope::WebhooksManage, Scope::EmailsRead].into_iter().collect();
        assert_eq!(scopes.to_string(), "emails:read, webhooks:manage");
        assert!(!scopes.contains(Scope::EmailsSend));
        assert_eq!(Scopes::NONE.to_string(), "none");
    }
}
