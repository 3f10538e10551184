//! One or many email addresses.

/// One or many email addresses, as `a@b` or `Name <a@b>`.
///
/// A text, a `String`, and an array, a slice or a `Vec` of them convert into it, so that
/// [`Email::new`](super::Email::new) and the methods of [`Email`](super::Email) take any of
/// these.
///
/// ```
/// use svc_sdk::email::Email;
///
/// let team = vec!["ada@example.com".to_owned(), "bob@example.com".to_owned()];
/// let email = Email::new("hello@shop.example", team, "Hi").cc("carol@example.com");
/// assert_eq!(email.to, ["ada@example.com", "bob@example.com"]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Recipients(pub(super) Vec<String>);

/// Shows the number of addresses only.
impl std::fmt::Debug for Recipients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipients({})", self.0.len())
    }
}

impl From<String> for Recipients {
    fn from(address: String) -> Self {
        Self(vec![address])
    }
}

impl From<&str> for Recipients {
    fn from(address: &str) -> Self {
        Self(vec![address.to_owned()])
    }
}

impl From<&String> for Recipients {
    fn from(address: &String) -> Self {
        Self(vec![address.clone()])
    }
}

impl<T: Into<String>> From<Vec<T>> for Recipients {
    fn from(addresses: Vec<T>) -> Self {
        Self(addresses.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Recipients {
    fn from(addresses: [T; N]) -> Self {
        Self(addresses.into_iter().map(Into::into).collect())
    }
}

impl<T: Clone + Into<String>> From<&[T]> for Recipients {
    fn from(addresses: &[T]) -> Self {
        addresses.to_vec().into()
    }
}

impl<T: Clone + Into<String>, const N: usize> From<&[T; N]> for Recipients {
    fn from(addresses: &[T; N]) -> Self {
        addresses.to_vec().into()
    }
}

impl<T: Clone + Into<String>> From<&Vec<T>> for Recipients {
    fn from(addresses: &Vec<T>) -> Self {
        addresses.to_vec().into()
    }
}
