// Learning rates step by step, against PyTorch's schedulers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <normplace/train/schedule.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("every schedule is PyTorch's") {
    const std::map<std::string, Schedule> schedules{
        {"constant", Schedule::constant(0.01)},
        {"constant, warmed up", Schedule::constant(0.01).with_warm_up(4)},
        {"inverse square root", Schedule::inverse_square_root(0.01, 5)},
        {"inverse square root, no warm-up", Schedule::inverse_square_root(0.01, 1)},
        {"step", Schedule::step_decay(0.01, 0.3, 4)},
        {"step, warmed up", Schedule::step_decay(0.01, 0.3, 4).with_warm_up(3)},
        {"linear", Schedule::linear_decay(0.01, 0.002, 9)},
        {"linear, warmed up", Schedule::linear_decay(0.01, 0.002, 9).with_warm_up(3)},
        {"cosine", Schedule::cosine_decay(0.01, 0.002, 9)},
        {"cosine, warmed up", Schedule::cosine_decay(0.01, 0.0, 9).with_warm_up(3)}};
    const auto& golden = training_golden().at("schedules");
    REQUIRE(golden.size() == schedules.size());
    for (const auto& named_schedule : schedules) {
        const std::string& name = named_schedule.first;
        const Schedule& schedule = named_schedule.second;
        const auto& rates = golden.at(name);
        REQUIRE(rates.size() >= 5);
        for (std::size_t i = 0; i < rates.size(); ++i) {
            CAPTURE(name);
            CAPTURE(i + 1);
            // PyTorch multiplies from step to step, so its rounding grows with their number.
            CHECK(std::abs(schedule(i + 1) - rates[i].get<double>()) < 1e-15);
        }
    }
}

TEST_CASE("decays end at the floor and stay there, to the bit, and nothing overflows") {
    const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    for (const std::uint64_t warm_up : {0u, 5u})
        for (const Schedule& schedule : {Schedule::linear_decay(0.3, 0.1, 10).with_warm_up(warm_up),
                                         Schedule::cosine_decay(0.3, 0.1, 10).with_warm_up(warm_up)}) {
            CHECK(schedule(warm_up + 1) == doctest::Approx(0.3).epsilon(1e-15));
            CHECK(schedule(warm_up + 10) > 0.1);
            for (const std::uint64_t step : {warm_up + 11, warm_up + 12, warm_up + 1000, last})
                CHECK(schedule(step) == 0.1);
        }
    CHECK(Schedule::step_decay(1.0, 0.5, 1)(last) == 0.0);
    CHECK(Schedule::step_decay(1.0, 1.0, 3)(last) == 1.0);
    CHECK(Schedule::inverse_square_root(1.0, 4)(last) == doctest::Approx(std::sqrt(4.0 / 18446744073709551615.0)));
    CHECK(Schedule::constant(0.25).with_warm_up(last)(last) == 0.25);
}

TEST_CASE("the peak is reached at the last step of the warm-up, and the schedule begins after it") {
    const Schedule schedule = Schedule::inverse_square_root(0.001, 4000);
    CHECK(schedule(1) == doctest::Approx(0.001 / 4000));
    CHECK(schedule(4000) == 0.001);
    CHECK(schedule(16000) == doctest::Approx(0.0005).epsilon(1e-15));
    CHECK(schedule.peak() == 0.001);
    CHECK(schedule.warm_up() == 4000);
    // Vaswani et al. 2017: D^-0.5 min(t^-0.5, t T^-1.5)
    const Schedule vaswani = Schedule::inverse_square_root(1.0 / std::sqrt(512.0 * 4000.0), 4000);
    for (const double t : {1.0, 100.0, 4000.0, 4001.0, 100000.0})
        CHECK(vaswani(static_cast<std::uint64_t>(t)) ==
              doctest::Approx(std::min(1.0 / std::sqrt(t), t * std::pow(4000.0, -1.5)) / std::sqrt(512.0))
                  .epsilon(1e-14));
    CHECK(schedule.with_warm_up(100)(400) == doctest::Approx(0.0005).epsilon(1e-15));
    CHECK(Schedule::step_decay(1.0, 0.5, 2).with_warm_up(3)(5) == 1.0);
    CHECK(Schedule::step_decay(1.0, 0.5, 2).with_warm_up(3)(6) == 0.5);
    CHECK(Schedule::constant(0.5).with_warm_up(0)(1) == 0.5);
}

TEST_CASE("descriptions") {
    CHECK(Schedule::constant(0.001).description() == "constant 0.001");
    CHECK(Schedule::constant(0.001).with_warm_up(500).description() ==
          "linear warm-up over 500 steps to 0.001, then constant");
    CHECK(Schedule::inverse_square_root(0.001, 4000).description() ==
          "linear warm-up over 4000 steps to 0.001, then inverse square root");
    CHECK(Schedule::step_decay(0.1, 0.5, 30).description() == "step decay from 0.1 by 0.5 every 30 steps");
    CHECK(Schedule::linear_decay(0.1, 0.01, 30).description() == "linear decay from 0.1 to 0.01 over 30 steps");
    CHECK(Schedule::cosine_decay(0.001, 0.0, 10000).with_warm_up(500).description() ==
          "linear warm-up over 500 steps to 0.001, then cosine decay to 0 over 10000 steps");
}

TEST_CASE("wrong arguments are refused with their values") {
    CHECK_THROWS_WITH(Schedule::constant(-1.0),
                      "Schedule::constant: peak is -1, expected a finite number of at least 0");
    CHECK_THROWS_WITH(Schedule::linear_decay(std::nan(""), 0.0, 5),
                      "Schedule::linear_decay: peak is nan, expected a finite number of at least 0");
    CHECK_THROWS_WITH(Schedule::inverse_square_root(1.0, 0),
                      "Schedule::inverse_square_root: warm-up is 0, expected at least 1");
    CHECK_THROWS_WITH(Schedule::inverse_square_root(1.0, 3).with_warm_up(0),
                      "Schedule::inverse_square_root: warm-up is 0, expected at least 1");
    CHECK_THROWS_WITH(Schedule::step_decay(1.0, 1.1, 5),
                      "Schedule::step_decay: gamma is 1.1, expected a number in (0, 1]");
    CHECK_THROWS_WITH(Schedule::step_decay(1.0, 0.0, 5),
                      "Schedule::step_decay: gamma is 0, expected a number in (0, 1]");
    CHECK_THROWS_WITH(Schedule::step_decay(1.0, 0.5, 0),
                      "Schedule::step_decay: number of steps is 0, expected at least 1");
    CHECK_THROWS_WITH(Schedule::cosine_decay(0.1, 0.2, 5),
                      "Schedule::cosine_decay: floor is 0.2, expected a number from 0 to the peak, 0.1");
    CHECK_THROWS_WITH(Schedule::linear_decay(0.1, -0.1, 5),
                      "Schedule::linear_decay: floor is -0.1, expected a number from 0 to the peak, 0.1");
    CHECK_THROWS_WITH(Schedule::cosine_decay(0.1, 0.0, 0),
                      "Schedule::cosine_decay: number of steps is 0, expected at least 1");
    CHECK_THROWS_WITH(Schedule::constant(0.1)(0), "Schedule: step is 0, expected steps to be counted from 1");
}
