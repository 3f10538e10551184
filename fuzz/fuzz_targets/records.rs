//! Files of `svc bulk send` and `svc contacts import`: any bytes are read to an end or refused, and
//! what is read does not depend on how the bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let read = svc_cli::read_records(content.to_vec());
    if let Ok(records) = &read {
        assert!(records.is_sorted(), "the numbers of records ascend");
    }
    assert_eq!(read, svc_cli::read_records(content.to_vec()));
});
