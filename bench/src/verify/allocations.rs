//! Counts the allocations of a verification. Exits with 1 if there are any.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use webhook_verify::{Secret, Service, Signature, Verifier};

fn main() {
    let secret = |text| Secret::new(text).unwrap();
    let older = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let newest = "another";
    let body = [7; 1024];
    let header = Signature::sign(Service::Extraction, &secret(older), body).to_string();
    let rotating =
        Verifier::with_secrets(Service::Extraction, [secret(newest), secret(older)]).unwrap();

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "the counting allocator is not installed");
    for _ in 0..100 {
        let signature = Signature::parse(Service::Extraction, &header).unwrap();
        assert_eq!(rotating.verify_bytes(&signature, &body), Ok(1));
        assert!(rotating.verify_bytes(&signature, &body[1..]).is_err());
    }

    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    println!("allocations in 200 verifications: {allocations}");
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
