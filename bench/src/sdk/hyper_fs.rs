//! A hand-written streaming body for hyper: tokio reads the file in chunks, encoded with
//! SIMD, between the rest of the JSON, with an exact `Content-Length`.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

pub const PREFIX: &str =
    r#"{"from":"a@b","to":["c@d"],"subject":"s","attachments":[{"filename":"a.bin","content":""#;
pub const SUFFIX: &str = r#""}]}"#;

const CHUNK_SIZE: usize = 96 * 1024;

pub struct Streamed {
    before: Option<Bytes>,
    file: File,
    buffer: Vec<u8>,
    filled: usize,
    after: Option<Bytes>,
    left: u64,
}

impl Streamed {
    pub async fn new(path: &Path) -> Self {
        let mut file = File::open(path).await.expect("open the file");
        file.set_max_buf_size(CHUNK_SIZE);
        let length = file.metadata().await.expect("read the metadata").len();
        Self {
            left: (PREFIX.len() + SUFFIX.len()) as u64 + length.div_ceil(3) * 4,
            before: Some(Bytes::from_static(PREFIX.as_bytes())),
            file,
            buffer: vec![0; CHUNK_SIZE],
            filled: 0,
            after: Some(Bytes::from_static(SUFFIX.as_bytes())),
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<Option<Bytes>>> {
        if let Some(before) = self.before.take() {
            return Poll::Ready(Ok(Some(before)));
        }

        while self.filled < CHUNK_SIZE {
            let mut room = ReadBuf::new(&mut self.buffer[self.filled..]);
            ready!(Pin::new(&mut self.file).poll_read(cx, &mut room))?;
            match room.filled().len() {
                0 => break,
                count => self.filled += count,
            }
        }

        if self.filled == 0 {
            return Poll::Ready(Ok(self.after.take()));
        }

        let part = &self.buffer[..self.filled];
        let encoded = base64_simd::STANDARD.encode_type::<Vec<u8>>(part);
        self.filled = 0;
        Poll::Ready(Ok(Some(encoded.into())))
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let part = ready!(self.poll_chunk(cx)?);
        self.left -= part.as_ref().map_or(0, Bytes::len) as u64;
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
