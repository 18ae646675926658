//! The cars, in Redis: a list of free cars for each area, and which car serves which order.
//!
//! Each step is one script, so that a car is in one place at any moment, and each can be repeated: a message may come twice.

use redis::{AsyncCommands as _, RedisError, Script, aio::ConnectionManager};

/// Order to car, and car to order.
const ASSIGNED: &str = "taxi:assigned";
const SERVING: &str = "taxi:serving";
/// Every car that has come online.
const CARS: &str = "taxi:cars";

/// The car that the order has already, else the one that has waited longest.
const TAKE: &str = r"
local car = redis.call('HGET', KEYS[2], ARGV[1])
if car then return car end
car = redis.call('LPOP', KEYS[1])
if not car then return false end
redis.call('HSET', KEYS[2], ARGV[1], car)
redis.call('HSET', KEYS[3], car, ARGV[1])
return car";

/// Puts a car behind the others, if it still serves this order.
const PUT_BACK: &str = r"
if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[3], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[1], ARGV[2])
return 1";

/// Puts a new car behind the others.
const COME_ONLINE: &str = r"
if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1";

fn free(area: &str) -> String {
    format!("taxi:free:{area}")
}

#[derive(Clone)]
pub struct Garage {
    redis: ConnectionManager,
}

impl std::fmt::Debug for Garage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Garage")
    }
}

impl Garage {
    pub async fn open(url: &str) -> Result<Garage, RedisError> {
        Ok(Garage { redis: redis::Client::open(url)?.get_connection_manager().await? })
    }

    /// Whether the car is new.
    pub async fn come_online(&self, car: &str, area: &str) -> Result<bool, RedisError> {
        let mut redis = self.redis.clone();
        Script::new(COME_ONLINE).key(free(area)).key(CARS).arg(car).invoke_async(&mut redis).await
    }

    /// A car for an order; the same one however often it is asked for.
    pub async fn take(&self, area: &str, order: i64) -> Result<Option<String>, RedisError> {
        let mut redis = self.redis.clone();
        let script = Script::new(TAKE);
        script.key(free(area)).key(ASSIGNED).key(SERVING).arg(order).invoke_async(&mut redis).await
    }

    /// The car of an order goes back; nothing happens if it has.
    pub async fn put_back(&self, area: &str, order: i64, car: &str) -> Result<bool, RedisError> {
        let mut redis = self.redis.clone();
        let script = Script::new(PUT_BACK);
        script.key(free(area)).key(ASSIGNED).key(SERVING).arg(order).arg(car).invoke_async(&mut redis).await
    }

    pub async fn car_of(&self, order: i64) -> Result<Option<String>, RedisError> {
        self.redis.clone().hget(ASSIGNED, order).await
    }

    pub async fn free_cars(&self, area: &str) -> Result<u64, RedisError> {
        self.redis.clone().llen(free(area)).await
    }
}
