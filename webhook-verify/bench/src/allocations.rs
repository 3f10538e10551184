//! Counts the allocations of a verification. Exits with 1 if there are any.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use webhook_verify::{ExtractionSigner, ExtractionVerifier, Secret};

fn main() {
    let secret = |text| Secret::new(text).unwrap();
    let (older, newest) = ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "another");
    let body = [7; 1024];
    let header = ExtractionSigner::new(&secret(older)).sign(body).to_string();
    let verifier = ExtractionVerifier::new(secret(older));
    let rotating = ExtractionVerifier::with_secrets([secret(newest), secret(older)]).unwrap();

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "the counting allocator is not installed");
    for _ in 0..100 {
        assert!(rotating.verify(&header, body).is_ok());
        assert!(verifier.verify("sha256=", body).is_err());
        let mut stream = verifier.verify_stream(&header).unwrap();
        stream.update(body);
        assert!(stream.finish().is_ok());
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    println!("allocations in 300 verifications: {allocations}");
    std::process::exit(i32::from(allocations > 0));
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct CountingAllocator;

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
