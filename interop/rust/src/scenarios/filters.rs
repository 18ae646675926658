//! Server-side filtering by tag and by SQL expression.

use std::collections::HashMap;

use rocketmq::model::common::{FilterExpression, FilterType};

use crate::clients::{bodies, sorted, Clients, Consumer, Wanted};
use crate::harness::{check_equal, Outcome};

pub async fn tag_filter(clients: Clients) -> Outcome {
    let tag = |name: &str| format!("{}-{name}", clients.tag);
    let filter = FilterExpression::new(FilterType::Tag, format!("{} || {}", tag("A"), tag("B")));
    let consumer = clients.filtered_consumer(filter).await?;
    let producer = clients.producer().await?;
    for name in ["A", "C", "B", "C", "A"] {
        producer.send(clients.message(name).set_tag(tag(name)).build()?).await?;
    }
    expect_bodies(&consumer, &["A", "A", "B"]).await
}

pub async fn sql_filter(clients: Clients) -> Outcome {
    let expression = format!(
        "run = '{}' AND price BETWEEN 10 AND 20 AND color IN ('red', 'blue') AND hidden IS NULL",
        clients.tag
    );
    let consumer = clients.filtered_consumer(FilterExpression::new(FilterType::Sql, expression)).await?;
    let producer = clients.producer().await?;
    let messages: [(&str, &[(&str, &str)]); 6] = [
        ("fits", &[("price", "10"), ("color", "red")]),
        ("too dear", &[("price", "21"), ("color", "red")]),
        ("wrong color", &[("price", "15"), ("color", "green")]),
        ("no price", &[("color", "red")]),
        ("hidden", &[("price", "15"), ("color", "red"), ("hidden", "yes")]),
        ("fits too", &[("price", "20"), ("color", "blue")]),
    ];
    for (body, properties) in messages {
        let mut properties: HashMap<_, _> = properties.iter().copied().collect();
        properties.insert("run", &clients.tag);
        producer.send(clients.message(body).set_properties(properties).build()?).await?;
    }
    expect_bodies(&consumer, &["fits", "fits too"]).await
}

async fn expect_bodies(consumer: &Consumer, expected: &[&str]) -> Outcome {
    let arrivals = consumer.receive(Wanted::count(expected.len())).await?;
    let expected: Vec<String> = expected.iter().map(|body| body.to_string()).collect();
    check_equal(sorted(bodies(&arrivals)), expected, "bodies that passed the filter")?;
    check_equal(consumer.leftovers().await?, vec![], "bodies after the expected ones")?;
    Ok(String::new())
}
