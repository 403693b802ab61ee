// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <normplace/measure/seeds.hpp>

using namespace normplace;

namespace {

struct SeedOptions {
    std::size_t seeds = 0, threads = 0;
    std::function<void(std::size_t, std::size_t)> progress{};
};

}  // namespace

TEST_CASE("every seed is measured once, and progress counts them one by one") {
    for (const std::size_t threads : std::vector<std::size_t>{1, 2, 50}) {
        std::vector<int> measured(7);
        std::vector<std::size_t> seen;
        detail::for_each_seed(
            SeedOptions{7, threads,
                        [&](std::size_t done, std::size_t total) {
                            CHECK(total == 7);
                            seen.push_back(done);
                        }},
            [] { return std::make_unique<int>(0); }, [&](std::size_t seed, int&) { ++measured[seed]; });
        CHECK(measured == std::vector<int>(7, 1));
        CHECK(seen == std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7});
    }
}

TEST_CASE("a thread keeps its network from seed to seed") {
    std::size_t made = 0, uses = 0;
    detail::for_each_seed(
        SeedOptions{5, 1, {}},
        [&] {
            ++made;
            return std::make_unique<std::size_t>(0);
        },
        [&](std::size_t, std::size_t& used) { uses = ++used; });
    CHECK(made == 1);
    CHECK(uses == 5);
}

TEST_CASE("means and their standard errors") {
    const Moment mean = detail::mean_over_seeds({1.0, 2.0, 6.0});
    CHECK(mean.value == doctest::Approx(3.0));
    CHECK(mean.standard_error == doctest::Approx(std::sqrt(14.0 / 6.0)));
    CHECK(std::isnan(detail::mean_over_seeds({4.0}).standard_error));

    const Moment root = detail::root_mean_square_over_seeds({1.0, 2.0, 6.0});
    CHECK(root.value == doctest::Approx(std::sqrt(3.0)));
    CHECK(root.standard_error == doctest::Approx(std::sqrt(14.0 / 6.0) / (2.0 * std::sqrt(3.0))));
    CHECK(detail::root_mean_square_over_seeds({0.0, 0.0}).value == 0.0);
}
