//! Counts what a verification allocates: nothing. Exits 1 when it is more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use webhook_verify::{ExtractionSigner, ExtractionVerifier, Secret};

fn main() {
    let secret = |text| Secret::new(text).unwrap();
    let (older, newest) = ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "another");
    let body = [7; 1024];
    let header = ExtractionSigner::new(&secret(older)).sign(body).to_string();
    let verifier = ExtractionVerifier::new(secret(older));
    let rotating = ExtractionVerifier::rotating([secret(newest), secret(older)]).unwrap();

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "nothing is counted");
    for _ in 0..100 {
        assert!(rotating.verify(&header, body).is_ok());
        assert!(verifier.verify("sha256=", body).is_err());
        let mut verifying = verifier.begin(&header).unwrap();
        verifying.update(body);
        assert!(verifying.finish().is_ok());
    }
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    println!("allocations in 300 verifications: {made}");
    std::process::exit(i32::from(made > 0));
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
