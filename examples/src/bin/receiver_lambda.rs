//! Receives deliveries of the extraction service in an AWS Lambda function,
//! behind API Gateway, a function URL or a load balancer.
//!
//! The memory store remembers for as long as this instance of the function
//! lives; `RedisStore` remembers for all of them.
#![expect(clippy::print_stdout, reason = "what it receives is what it is there to show")]

use std::convert::Infallible;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use webhook_verify::dedup::{Dedup, MemoryStore};
use webhook_verify::{
    Extraction, ExtractionDelivery, ExtractionVerifier, LambdaRequest, LambdaResponse, Receiver,
    Secret,
};

async fn receive(
    receiver: &Receiver<Extraction>,
    dedup: &Dedup<MemoryStore>,
    request: &LambdaRequest,
) -> LambdaResponse {
    let delivery = match receiver.receive_lambda(request) {
        Ok(delivery) => delivery,
        Err(refused) => return refused.into(),
    };
    match dedup.once(&delivery, handle(&delivery)).await {
        Ok(once) => once.into(),
        Err(error) => error.into(),
    }
}

/// An error here lets the service try again later.
async fn handle(delivery: &ExtractionDelivery) -> Result<LambdaResponse, LambdaResponse> {
    println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
    Ok(LambdaResponse::new(204))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let receiver = &Receiver::new(ExtractionVerifier::new(Secret::from_env("WEBHOOK_SECRET")?));
    let dedup = &Dedup::new(MemoryStore::new());
    lambda_runtime::run(service_fn(move |event: LambdaEvent<LambdaRequest>| async move {
        let request = event.payload;
        Ok::<_, Infallible>(request.answer(receive(receiver, dedup, &request).await))
    }))
    .await
}
