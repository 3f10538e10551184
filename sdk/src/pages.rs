//! `ListStream<T>` requests a list page after page. `Paginator::step` looks at each page and
//! decides what to request next: by a link, else a cursor, else a number. The stream ends without
//! an error only if, as far as the pages tell, it has returned all items. A page that was there
//! before ends it with `ErrorKind::PageRepeated`, and a list that says it goes on but not how with
//! `IncompleteList`.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde_json::Value;

use crate::engine::{Call, RawResponse};
use crate::error::{Error, ErrorKind, Outcome};
use crate::list::{Cursor, List};
use crate::names::debug_fields;

/// A stream of all items of a list. It requests the next page when the previous one is used up:
/// whatever tells that there is more, a number, a cursor or a link on the same host.
///
/// The stream ends after an error; items returned before it are valid. A list that says that it has
/// more items, but not how to get them, ends with
/// [`ErrorKind::IncompleteList`]. Where pages are requested by number, and the list changes
/// meanwhile, an item may be repeated or missed.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// let mut audiences = client.audiences().stream();
/// while let Some(audience) = audiences.try_next().await? {
///     println!("{}", audience.id);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct ListStream<T> {
    first: Arc<dyn Fn() -> Call<List<T>> + Send + Sync>,
    /// Whether the list has documented pages, which are asked for even if it says nothing of more.
    is_paged: bool,
    page_size: Option<u64>,
    left: Option<BoxStream<'static, Result<T, Error>>>,
}

impl<T: Serialize + Send + 'static> ListStream<T> {
    pub(crate) fn new(
        is_paged: bool,
        first: impl Fn() -> Call<List<T>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            first: Arc::new(first),
            is_paged,
            page_size: None,
            left: None,
        }
    }

    /// Sets the number of items per request. By default, the service decides.
    pub fn page_size(mut self, page_size: u64) -> Self {
        self.page_size = Some(page_size);
        self
    }

    /// The request for the first page, for a look at it before anything is sent.
    pub fn first_call(&self) -> Call<List<T>> {
        (self.first)()
    }

    /// Returns the next item, or `None` after the last one. [`Stream`]'s adapters do
    /// the same; this needs no further crate.
    ///
    /// # Errors
    ///
    /// The error of the request for the next page. The stream has then ended.
    pub async fn try_next(&mut self) -> Result<Option<T>, Error> {
        TryStreamExt::try_next(self).await
    }

    /// Reads the whole list. What the service does not say how to get is missing; the list is then
    /// not [complete](List::is_complete).
    ///
    /// # Errors
    ///
    /// The error of a request for a page.
    pub async fn into_list(mut self) -> Result<List<T>, Error> {
        let mut items = Vec::new();
        loop {
            match self.try_next().await {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(items.into()),
                Err(error) if error.is_incomplete_list() => {
                    let mut list = List::from(items);
                    list.more.said = Some(true);
                    return Ok(list);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn pages(&self) -> BoxStream<'static, Result<List<T>, Error>> {
        let first = Arc::clone(&self.first);
        let page_size = self.page_size;
        let paginator = Paginator::new(self.is_paged, first().first_page());
        Box::pin(stream::try_unfold(Some(paginator), move |paginator| {
            let call = first();
            async move {
                let Some(mut paginator) = paginator else {
                    return Ok(None);
                };
                let operation = call.operation();
                let failed = |kind| Error::new(kind, Outcome::Refused).with_operation(operation);
                let Some(call) = paginator.next.apply(call, page_size) else {
                    return Err(failed(ErrorKind::IncompleteList));
                };
                let page = match call.await {
                    // Some services have no page after the last one.
                    Err(error) if error.is_not_found() && paginator.may_have_ended() => {
                        return Ok(None);
                    }
                    page => page?,
                };
                Ok(match paginator.step(&page).map_err(failed)? {
                    Step::More => Some((page, Some(paginator))),
                    Step::Last => Some((page, None)),
                    Step::End => None,
                })
            }
        }))
    }
}

impl ListStream<Value> {
    /// All items of a list that this crate does not model, as JSON. `call` makes the request for
    /// the first page, such as `client.raw("GET", "/api/v1/templates")`.
    pub fn of_raw(call: impl Fn() -> Call<RawResponse> + Send + Sync + 'static) -> Self {
        Self::new(true, move || call().into_list())
    }
}

#[cfg(feature = "blocking")]
impl<T: Serialize + Send + 'static> ListStream<T> {
    /// Returns a blocking iterator over the items, for programs without an async
    /// runtime.
    pub fn block_iter(mut self) -> impl Iterator<Item = Result<T, Error>> {
        std::iter::from_fn(move || {
            crate::engine::block(self.try_next())
                .and_then(|next| next)
                .transpose()
        })
    }
}

impl<T: Serialize + Send + 'static> Stream for ListStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let each = |page: List<T>| stream::iter(page.items.into_iter().map(Ok));
        let mut items = match this.left.take() {
            Some(items) => items,
            None => this.pages().map_ok(each).try_flatten().boxed(),
        };
        let next = items.poll_next_unpin(cx);
        this.left = Some(items);
        next
    }
}

debug_fields!(ListStream<T>: page_size);

/// Which page to request.
#[derive(Clone, Debug, Default, PartialEq)]
enum Next {
    #[default]
    First,
    /// A number, and the offset, if the list names one: most services take only one of them.
    Page(u64, Option<Cursor>),
    Cursor(Cursor),
    /// A link, and the number of the page if the link leads elsewhere.
    Link(String, Option<u64>),
}

impl Next {
    /// `None` if the service does not say how to get the page.
    fn apply<T>(&self, call: Call<List<T>>, page_size: Option<u64>) -> Option<Call<List<T>>> {
        let call = match self {
            Self::First => call,
            Self::Page(page, offset) => {
                let call = call.with_query("page", page);
                match offset {
                    Some(offset) => call.with_query(&offset.parameter, &offset.value),
                    None => call,
                }
            }
            Self::Cursor(cursor) => call.with_query(&cursor.parameter, &cursor.value),
            Self::Link(link, page) => match (call.path_of(link), page) {
                (Some(path), _) => return Some(call.with_path(path)),
                (None, Some(page)) => call.with_query("page", page),
                (None, None) => return None,
            },
        };
        Some(match page_size {
            Some(size) => call.with_query("pageSize", size),
            None => call,
        })
    }
}

/// How many empty pages in a row are followed, if nothing but a link or a cursor says that there is more.
const MAX_EMPTY_PAGES: u32 = 3;

/// Determines which page to request next, and when to stop.
#[derive(Default)]
struct Paginator {
    /// The number of the first page.
    first: u64,
    is_paged: bool,
    next: Next,
    /// The number of the page that is requested.
    asked: Option<u64>,
    items: u64,
    /// The newest total that a page named.
    total: Option<u64>,
    /// Whether the last page said that there is another.
    says_more: bool,
    /// How many pages in a row had no items.
    empty_pages: u32,
    /// A hash of every page, to detect repeated pages.
    pages: HashSet<u64>,
}

enum Step {
    /// The page has items, and there may be more pages.
    More,
    /// The page is the last one.
    Last,
    /// The page has no new items.
    End,
}

impl Paginator {
    fn new(is_paged: bool, first: u64) -> Self {
        Self {
            first,
            is_paged,
            ..Self::default()
        }
    }

    /// Whether a page that does not exist is the end of the list.
    fn may_have_ended(&self) -> bool {
        matches!(self.next, Next::Page(..)) && !self.says_more && !self.lacks_items()
    }

    fn lacks_items(&self) -> bool {
        self.total.is_some_and(|total| self.items < total)
    }

    /// Processes a page and decides how to continue.
    ///
    /// # Errors
    ///
    /// If the page was there before, or has no items although there should be more.
    fn step<T: Serialize>(&mut self, page: &List<T>) -> Result<Step, ErrorKind> {
        self.total = page.total.or(self.total);
        let goes_on = page.more.is_said();
        self.empty_pages = if page.is_empty() {
            self.empty_pages + 1
        } else {
            0
        };
        // Some services lead from each page to another, also from those behind the last one; others
        // have pages without items in between.
        let leads_nowhere = self.empty_pages > MAX_EMPTY_PAGES && page.more.said.is_none();
        if page.is_empty() && (!goes_on || leads_nowhere) {
            return if self.lacks_items() {
                Err(ErrorKind::IncompleteList)
            } else {
                Ok(Step::End)
            };
        }

        let mut hasher = DefaultHasher::new();
        serde_json::to_string(page)
            .unwrap_or_default()
            .hash(&mut hasher);
        if page.is_empty() {
            page.more.hash(&mut hasher);
        }
        if !self.pages.insert(hasher.finish()) {
            // A response without paging fields that is the same for every page number is
            // the whole list.
            let names_pages = page.page.or(page.total).or(page.total_pages).is_some();
            return if names_pages || goes_on || self.pages.len() > 1 {
                Err(ErrorKind::PageRepeated)
            } else {
                Ok(Step::End)
            };
        }

        self.items += page.len() as u64;

        let pages = self.pages.len() as u64;
        let lacks = [
            page.total.map(|total| self.items < total),
            page.total_pages.map(|total| pages < total),
        ];
        let lacks_some = lacks.contains(&Some(true));
        // Where links or cursors lead on, the page without one is the last.
        let was_led = matches!(self.next, Next::Link(..) | Next::Cursor(_));
        let has_all = was_led || lacks.contains(&Some(false));
        let is_over = page.more.said == Some(false) || (has_all && !goes_on);
        if is_over || !(goes_on || lacks_some || self.is_paged) {
            return Ok(Step::Last);
        }

        self.says_more = goes_on || lacks_some;
        self.go_on(page);
        Ok(Step::More)
    }

    /// To the next page: by a link, a cursor or a number, in this order.
    fn go_on<T>(&mut self, page: &List<T>) {
        let number = match (page.page, self.asked) {
            // Following a lower number than the requested one would loop.
            (Some(named), Some(asked)) => named.max(asked),
            (named, asked) => named.or(asked).unwrap_or(self.first),
        };
        let following = number.saturating_add(1);
        let names_page = page.page.is_some() || page.total_pages.is_some();
        let more = page.more.clone();
        (self.next, self.asked) = match (more.link, more.cursor) {
            (Some(link), _) => {
                let named = names_page.then_some(following);
                (Next::Link(link, named), named)
            }
            (None, Some(cursor)) => (Next::Cursor(cursor), None),
            (None, None) => {
                let page = more.page.unwrap_or(following);
                (Next::Page(page, more.offset), Some(page))
            }
        };
    }
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
        let mut paginator = Paginator::new(true, first);
        let mut ids = Vec::new();
        for asked in 1.. {
            let number = match paginator.next {
                Next::Page(number, _) => Some(number),
                _ => None,
            };
            let page = server(number);
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
