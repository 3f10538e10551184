//! Receives deliveries of the extraction service in an AWS Lambda function,
//! behind API Gateway, a function URL or a load balancer.
//!
//! `MemoryStore` remembers deliveries within one instance of the function. To share
//! them between instances, use `RedisStore`.
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::convert::Infallible;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use webhook_verify::dedup::{Dedup, MemoryStore};
use webhook_verify::{
    Extraction, ExtractionDelivery, ExtractionVerifier, LambdaRequest, LambdaResponse, Receiver,
    Secret,
};

async fn receive(
    receiver: &Receiver<Extraction>,
    dedup: &Dedup,
    request: &LambdaRequest,
) -> LambdaResponse {
    let delivery = match receiver.receive_lambda(request).await {
        Ok(delivery) => delivery,
        Err(rejection) => return rejection.into(),
    };
    match dedup.run_once(delivery, handle).await {
        Ok(outcome) => outcome.into(),
        Err(error) => error.into(),
    }
}

/// Return an error to make the service retry the delivery.
async fn handle(delivery: ExtractionDelivery) -> Result<LambdaResponse, LambdaResponse> {
    println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
    Ok(LambdaResponse::new(204))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let receiver = &Receiver::new(ExtractionVerifier::new(Secret::from_env("WEBHOOK_SECRET")?));
    let dedup = &Dedup::new(MemoryStore::new());
    lambda_runtime::run(service_fn(move |event: LambdaEvent<LambdaRequest>| async move {
        let request = event.payload;
        Ok::<_, Infallible>(request.respond(receive(receiver, dedup, &request).await))
    }))
    .await
}
