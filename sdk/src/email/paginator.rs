//! Which page of a list to request next, and when to stop.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::error::{Error, ErrorKind, Outcome};
use crate::list::List;
use crate::operation::Operation;

/// Determines which page to request next, and when to stop.
pub(super) struct Paginator {
    first: u64,
    /// The number of the page to request; `None` at the first request.
    pub(super) next: Option<u64>,
    items: u64,
    /// A hash of every page, to detect repeated pages.
    pages: HashSet<u64>,
}

impl Paginator {
    pub(super) fn new(first: u64) -> Self {
        Self {
            first,
            next: None,
            items: 0,
            pages: HashSet::new(),
        }
    }

    /// Processes a page and decides how to continue.
    pub(super) fn step<T: Serialize>(&mut self, page: &List<T>) -> Result<Step, Error> {
        if page.is_empty() {
            return Ok(Step::End);
        }
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(page)
            .unwrap_or_default()
            .hash(&mut hasher);
        if !self.pages.insert(hasher.finish()) {
            // A response without paging fields that is the same for every page number is
            // the whole list.
            let named = page.page.or(page.total).or(page.total_pages);
            return match (named, self.pages.len()) {
                (None, 1) => Ok(Step::End),
                _ => Err(Error::new(ErrorKind::PageRepeated, Outcome::Refused)
                    .with_operation(Operation::ContactsList)),
            };
        }
        self.items += page.len() as u64;

        let number = match (page.page, self.next) {
            // Following a lower number than the requested one would loop.
            (Some(named), Some(asked)) => named.max(asked),
            (Some(named), None) => named,
            (None, asked) => asked.unwrap_or(self.first),
        };
        self.next = number.checked_add(1);
        let by_total = page.total.is_some_and(|total| self.items >= total);
        let by_pages = page
            .total_pages
            .is_some_and(|pages| self.pages.len() as u64 >= pages);
        Ok(if by_total || by_pages || self.next.is_none() {
            Step::Last
        } else {
            Step::More
        })
    }
}

pub(super) enum Step {
    /// The page has contacts, and there may be more pages.
    More,
    /// The page has contacts and is the last one.
    Last,
    /// The page has no new contacts.
    End,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::email::contacts::Contact;

    /// A page as returned by a simulated server.
    #[derive(Clone, Debug)]
    struct Page {
        ids: Vec<u8>,
        page: Option<u64>,
        total: Option<u64>,
        total_pages: Option<u64>,
    }

    fn list(page: &Page) -> List<Contact> {
        let contact = |id: &u8| Contact {
            id: id.to_string(),
            ..Contact::default()
        };
        List {
            items: page.ids.iter().map(contact).collect(),
            page: page.page,
            total: page.total,
            total_pages: page.total_pages,
            ..List::default()
        }
    }

    /// Requests pages until the paginator stops. Returns the ids, the number of requests,
    /// and whether it ended without an error.
    fn follow(first: u64, mut server: impl FnMut(Option<u64>) -> Page) -> (Vec<u8>, usize, bool) {
        let mut paginator = Paginator::new(first);
        let mut ids = Vec::new();
        for asked in 1.. {
            let page = server(paginator.next);
            match paginator.step(&list(&page)) {
                Ok(Step::More) => ids.extend(page.ids),
                Ok(Step::Last) => {
                    ids.extend(page.ids);
                    return (ids, asked, true);
                }
                Ok(Step::End) => return (ids, asked, true),
                Err(_) => return (ids, asked, false),
            }
        }
        unreachable!()
    }

    proptest! {
        /// Whichever paging fields a correct server returns, all contacts are returned once
        /// and in order.
        #[test]
        fn returns_all_contacts_of_a_correct_server(
            count in 0u8..40,
            size in 1usize..10,
            first in 0u64..2,
            (named, totals, pages) in any::<(bool, bool, bool)>(),
        ) {
            let all: Vec<u8> = (0..count).collect();
            let chunks: Vec<&[u8]> = all.chunks(size).collect();
            let (ids, _, ended) = follow(first, |page| {
                let number = page.unwrap_or(first);
                let ids = chunks.get((number - first) as usize).copied().unwrap_or_default();
                Page {
                    ids: ids.to_vec(),
                    page: named.then_some(number),
                    total: totals.then_some(u64::from(count)),
                    total_pages: pages.then_some(chunks.len() as u64),
                }
            });
            prop_assert!(ended);
            prop_assert_eq!(ids, all);
        }

        /// A server that returns pages in any order with arbitrary numbers and totals does
        /// not cause an endless loop, and no page is used twice.
        #[test]
        fn always_terminates(
            pages in prop::collection::vec(
                (
                    prop::collection::vec(any::<u8>(), 0..4),
                    prop::option::of(any::<u64>()),
                    prop::option::of(0u64..100),
                    prop::option::of(0u64..100),
                ),
                1..8,
            ),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
            first in 0u64..2,
        ) {
            let pages: Vec<Page> = pages
                .into_iter()
                .map(|(ids, page, total, total_pages)| Page { ids, page, total, total_pages })
                .collect();
            let mut turn = 0;
            let mut taken = Vec::new();
            let (ids, asked, _) = follow(first, |_| {
                let page = order[turn % order.len()].get(&pages).clone();
                turn += 1;
                taken.push(page.ids.clone());
                page
            });
            prop_assert!(asked <= pages.len() + 1, "{} of {}", asked, pages.len());
            // Only the last page may be a repetition.
            taken.pop();
            let mut distinct = taken.clone();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), taken.len());
            prop_assert!(ids.len() <= pages.iter().map(|page| page.ids.len()).sum());
        }

        /// If a server returns a lower page number than requested, the next page is
        /// requested anyway.
        #[test]
        fn tolerates_low_page_numbers(count in 1u8..9, off in 0u64..9) {
            let (ids, ..) = follow(1, |page| {
                let number = page.unwrap_or(1);
                let ids = u8::try_from(number).into_iter().filter(|id| *id <= count).collect();
                Page { ids, page: Some(number.saturating_sub(off).max(1)), total: None, total_pages: None }
            });
            prop_assert_eq!(ids, (1..=count).collect::<Vec<_>>());
        }

        /// Iteration ends even if the list grows or shrinks meanwhile.
        #[test]
        fn terminates_if_the_list_changes(sizes in prop::collection::vec(0u8..5, 1..20)) {
            let mut next = 0;
            let mut sizes = sizes.into_iter();
            let (ids, ..) = follow(1, |page| {
                let ids: Vec<u8> = (next..next + sizes.next().unwrap_or(0)).collect();
                next += ids.len() as u8;
                Page { ids, page, total: Some(u64::from(next) + 3), total_pages: None }
            });
            prop_assert!(ids.is_sorted());
        }
    }
}
