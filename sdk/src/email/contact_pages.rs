//! All pages of an audience's contacts (`open-points.md` E16).

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{self, StreamExt};

use super::{Contact, Contacts, PageQuery};
use crate::client::BoxStream;
use crate::{Error, ErrorKind, List, Outcome};

/// The contacts of an audience, one after the other; a page is asked for when
/// the one before it is used up.
///
/// An error ends the stream; what came before it is valid.
#[must_use = "a stream does nothing until it is polled"]
pub struct ContactStream {
    pages: ContactPages,
    ready: VecDeque<Contact>,
}

/// The pages of an audience's contacts.
#[must_use = "a stream does nothing until it is polled"]
pub struct ContactPages {
    contacts: Contacts,
    audience: String,
    page_size: Option<u64>,
    running: Option<BoxStream<Result<List<Contact>, Error>>>,
}

impl ContactStream {
    pub(super) fn new(contacts: Contacts, audience: String) -> Self {
        let pages = ContactPages { contacts, audience, page_size: None, running: None };
        Self { pages, ready: VecDeque::new() }
    }

    /// How many contacts to ask for at once; the service's own number if not
    /// set.
    pub fn page_size(mut self, page_size: u64) -> Self {
        self.pages.page_size = Some(page_size);
        self
    }

    /// Whole pages instead of single contacts.
    pub fn pages(self) -> ContactPages {
        self.pages
    }
}

impl Stream for ContactStream {
    type Item = Result<Contact, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(contact) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(contact)));
            }
            match std::task::ready!(self.pages.poll_next_unpin(cx)) {
                Some(Ok(page)) => self.ready.extend(page),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for ContactPages {
    type Item = Result<List<Contact>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let running = this.running.get_or_insert_with(|| {
            run(this.contacts.clone(), this.audience.clone(), this.page_size)
        });
        running.poll_next_unpin(cx)
    }
}

impl fmt::Debug for ContactStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContactStream").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ContactPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContactPages").field("page_size", &self.page_size).finish_non_exhaustive()
    }
}

fn run(
    contacts: Contacts,
    audience: String,
    page_size: Option<u64>,
) -> BoxStream<Result<List<Contact>, Error>> {
    let walk = Walk::new(contacts.shared.first_page());
    Box::pin(stream::try_unfold(Some(walk), move |walk| {
        let contacts = contacts.clone();
        let audience = audience.clone();
        async move {
            let Some(mut walk) = walk else { return Ok(None) };
            let query = PageQuery { page: walk.next, page_size };
            let page = contacts.list(&audience, query).await?;
            Ok(match walk.step(&page)? {
                Step::More => Some((page, Some(walk))),
                Step::Last => Some((page, None)),
                Step::Over => None,
            })
        }
    }))
}

/// Which page comes next, and when there is none.
#[derive(Debug)]
struct Walk {
    first: u64,
    /// The page to ask for; the very first time without a number.
    next: Option<u64>,
    items: u64,
    /// A hash of every page, so that none is gone through twice.
    pages: HashSet<u64>,
}

impl Walk {
    fn new(first: u64) -> Self {
        Self { first, next: None, items: 0, pages: HashSet::new() }
    }

    /// Takes note of a page and says what it is.
    fn step(&mut self, page: &List<Contact>) -> Result<Step, Error> {
        if page.is_empty() {
            return Ok(Step::Over);
        }
        if !self.pages.insert(hash(page)) {
            // What names no page and comes again whatever page is asked for is
            // the whole list.
            let named = page.page.or(page.total).or(page.total_pages);
            return match (named, self.pages.len()) {
                (None, 1) => Ok(Step::Over),
                _ => Err(Error::new(ErrorKind::PageRepeated, Outcome::Refused)),
            };
        }
        self.items += page.len() as u64;

        let number = match (page.page, self.next) {
            // Going by a number below the one asked for would lead in a circle.
            (Some(named), Some(asked)) => named.max(asked),
            (Some(named), None) => named,
            (None, asked) => asked.unwrap_or(self.first),
        };
        self.next = number.checked_add(1);
        let by_total = page.total.is_some_and(|total| self.items >= total);
        let by_pages = page.total_pages.is_some_and(|pages| self.pages.len() as u64 >= pages);
        Ok(if by_total || by_pages || self.next.is_none() { Step::Last } else { Step::More })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Contacts, and there may be more.
    More,
    /// Contacts, and no more after them.
    Last,
    /// Nothing new.
    Over,
}

fn hash(page: &List<Contact>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for contact in page {
        if contact.id.is_empty() {
            contact.extra.raw().hash(&mut hasher);
        } else {
            contact.id.hash(&mut hasher);
        }
    }
    hasher.finish()
}
