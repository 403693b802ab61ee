// One step from batches to parameters: the mean over tokens, clipping, schedule, divergence, resuming.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <normplace/train/adam.hpp>
#include <normplace/train/radam.hpp>
#include <normplace/train/sgd.hpp>
#include <normplace/train/training_loop.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

/// A model of one vector w (3): a token x costs |w - x|^2 / 2, and is predicted when that is below 1.
struct Toy {
    ParametersByHand<double> parameters;
    ParameterList<double> list;
    std::vector<std::uint64_t> batches;  // that were asked for

    Toy() {
        parameters.add("w", {3}, {0.5, -1.0, 2.0});
        list = parameters.list();
    }
    Toy(const Toy&) = delete;

    static std::vector<double> token(std::uint64_t number) {
        std::mt19937_64 random(number);
        std::normal_distribution<double> gaussian;
        return {gaussian(random), gaussian(random), gaussian(random)};
    }
    LossSum add(const std::vector<double>& x) const {
        LossSum sum;
        sum.tokens = 1;
        for (std::size_t i = 0; i < 3; ++i) {
            const double difference = list[0].value[i] - x[i];
            list[0].gradient[i] += difference;
            sum.sum += difference * difference / 2.0;
        }
        sum.negative_log_likelihood = 2.0 * sum.sum;
        sum.correct = sum.sum < 1.0;
        return sum;
    }
    /// Tokens [begin, end) as one batch.
    LossSum batch(std::uint64_t begin, std::uint64_t end) const {
        LossSum total;
        for (std::uint64_t number = begin; number < end; ++number) {
            const LossSum one = add(token(number));
            total.sum += one.sum;
            total.negative_log_likelihood += one.negative_log_likelihood;
            total.tokens += one.tokens;
            total.correct += one.correct;
        }
        return total;
    }
    /// Batch `number`, of one to three tokens.
    LossSum operator()(std::uint64_t number) {
        batches.push_back(number);
        return batch(10 * number, 10 * number + 1 + number % 3);
    }
};

}  // namespace

TEST_CASE("matrices of length 1 are that after each step, where it is asked for") {
    for (const bool unit : {false, true}) {
        ParametersByHand<double> parameters;
        parameters.add("layers.0.feed_forward.linear1.weight", {1, 2}, {0.6, 0.8});
        parameters.add("readout.weight", {1, 2}, {0.6, 0.8});
        const ParameterList<double> list = parameters.list();
        TrainingLoop<double> loop(list, SGD<double>(list), Schedule::constant(1.0), {.unit_matrices = unit});
        loop.step([&](std::uint64_t) {
            for (const auto& parameter : list) parameter.gradient[0] += 0.3;
            return LossSum{.sum = 1.0, .negative_log_likelihood = 1.0, .tokens = 1};
        });
        const double length = unit ? std::sqrt(0.3 * 0.3 + 0.8 * 0.8) : 1.0;
        CHECK(list[0].value[0] == doctest::Approx(0.3 / length).epsilon(1e-15));
        CHECK(list[0].value[1] == doctest::Approx(0.8 / length).epsilon(1e-15));
        CHECK(list[1].value[0] == doctest::Approx(0.3).epsilon(1e-15));
    }
}

TEST_CASE("a step by hand") {
    Toy toy;
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list), Schedule::constant(0.1).with_warm_up(2));
    const std::vector<double> w = values_of(toy.list);
    toy.list[0].gradient[0] = 7.0;  // of another step: forgotten
    const StepResult result = loop.step([&](std::uint64_t) { return toy.batch(0, 2); });

    const std::vector<double> a = Toy::token(0), b = Toy::token(1);
    double loss = 0.0, norm = 0.0;
    std::size_t correct = 0;
    for (const auto& x : {a, b}) {
        double one = 0.0;
        for (std::size_t i = 0; i < 3; ++i) one += (w[i] - x[i]) * (w[i] - x[i]) / 2.0;
        loss += one / 2.0;
        correct += one < 1.0;
    }
    for (std::size_t i = 0; i < 3; ++i) {
        const double gradient = w[i] - (a[i] + b[i]) / 2.0;
        norm += gradient * gradient;
        CHECK(toy.list[0].value[i] == doctest::Approx(w[i] - 0.05 * gradient).epsilon(1e-14));
    }
    CHECK(result.step == 1);
    CHECK(result.loss == doctest::Approx(loss).epsilon(1e-14));
    CHECK(result.negative_log_likelihood == doctest::Approx(2.0 * loss).epsilon(1e-14));
    CHECK(result.accuracy == static_cast<double>(correct) / 2.0);
    CHECK(result.gradient_norm == doctest::Approx(std::sqrt(norm)).epsilon(1e-14));
    CHECK(result.learning_rate == 0.05);
    CHECK(result.tokens == 2);
    CHECK(!result.diverged());
    CHECK(loop.steps() == 1);
    CHECK(loop.step(toy).learning_rate == 0.1);
}

TEST_CASE("batches of unequal size accumulate to one batch of all their tokens") {
    Toy parts, whole;
    const TrainingOptions options{.clip_norm = 0.5};
    TrainingOptions accumulated = options;
    accumulated.accumulate = 4;
    const Schedule schedule = Schedule::cosine_decay(0.1, 0.0, 20);
    TrainingLoop<double> in_parts(parts.list, Adam<double>(parts.list), schedule, accumulated);
    TrainingLoop<double> at_once(whole.list, Adam<double>(whole.list), schedule, options);
    for (std::uint64_t step = 0; step < 10; ++step) {
        const StepResult a = in_parts.step(parts), b = at_once.step([&](std::uint64_t) {
            LossSum sum;
            for (std::uint64_t i = 4 * step; i < 4 * step + 4; ++i) {
                const LossSum batch = whole(i);
                sum.sum += batch.sum;
                sum.tokens += batch.tokens;
            }
            return sum;
        });
        // The same additions to the same gradients; only the losses are added in another order.
        CHECK(values_of(parts.list) == values_of(whole.list));
        CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-14));
        CHECK(a.gradient_norm == b.gradient_norm);
        CHECK(a.tokens == b.tokens);
        CHECK(a.tokens > 4);
    }
    CHECK(parts.batches == whole.batches);
    CHECK(parts.batches.back() == 39);
}

TEST_CASE("clipping is that of the mean gradient, and leaves the reported norm alone") {
    Toy toy;
    const std::vector<double> w = values_of(toy.list);
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list), Schedule::constant(1.0), {.clip_norm = 0.25});
    const StepResult result = loop.step([&](std::uint64_t) { return toy.batch(0, 5); });
    CHECK(result.gradient_norm > 0.5);
    double moved = 0.0;
    for (std::size_t i = 0; i < 3; ++i) moved += std::pow(toy.list[0].value[i] - w[i], 2.0);
    CHECK(std::sqrt(moved) ==
          doctest::Approx(0.25 * result.gradient_norm / (result.gradient_norm + 1e-6)).epsilon(1e-13));
    CHECK(gradient_norm(toy.list) == doctest::Approx(std::sqrt(moved)).epsilon(1e-13));
}

TEST_CASE("a resumed run takes the same steps to the bit, and asks for the same batches") {
    const auto loop_of = [](Toy& toy, const std::string& optimizer) {
        AnyOptimizer<double> any = SGD<double>(toy.list, {.momentum = 0.9, .dampening = 0.1});
        if (optimizer == "adam") any = Adam<double>(toy.list, adam_w());
        if (optimizer == "radam") any = RAdam<double>(toy.list);
        return TrainingLoop<double>(toy.list, std::move(any), Schedule::inverse_square_root(0.05, 6),
                                    {.clip_norm = 1.0, .accumulate = 3});
    };
    for (const std::string optimizer : {"sgd", "adam", "radam"}) {
        CAPTURE(optimizer);
        Toy straight, stopped;
        TrainingLoop<double> first = loop_of(straight, optimizer), second = loop_of(stopped, optimizer);
        for (int t = 0; t < 4; ++t) first.step(straight);
        second.resume(first.steps());
        std::copy_n(straight.list[0].value.data(), 3, stopped.list[0].value.data());
        const auto from = first.optimizer().state(), to = second.optimizer().state();
        for (std::size_t i = 0; i < from.size(); ++i)
            std::copy(from[i].entries.begin(), from[i].entries.end(), to[i].entries.begin());
        straight.batches.clear();
        for (int t = 0; t < 8; ++t) {
            const StepResult a = first.step(straight), b = second.step(stopped);
            CHECK(a.step == b.step);
            CHECK(a.loss == b.loss);
            CHECK(a.learning_rate == b.learning_rate);
            CHECK(values_of(straight.list) == values_of(stopped.list));
        }
        CHECK(stopped.batches.front() == 12);
        CHECK(straight.batches == stopped.batches);
    }
}

TEST_CASE("a step that is not finite is not applied, and said") {
    Toy toy;
    TrainingLoop<double> loop(toy.list, Adam<double>(toy.list), Schedule::constant(0.1), {.clip_norm = 1.0});
    loop.step(toy);
    const std::vector<double> before = values_of(toy.list);
    const double infinity = std::numeric_limits<double>::infinity();

    const StepResult loss = loop.step([&](std::uint64_t) { return LossSum{std::nan(""), 0.0, 3, 0}; });
    CHECK(loss.divergence == "step 2: the loss is nan");
    CHECK(std::isnan(loss.loss));
    const StepResult gradient = loop.step([&](std::uint64_t number) {
        toy.list[0].gradient[1] = infinity;
        return toy(number);
    });
    CHECK(gradient.divergence == "step 2: the gradient norm is inf");
    CHECK(gradient.diverged());
    CHECK(std::isfinite(gradient.loss));
    CHECK(values_of(toy.list) == before);
    CHECK(loop.steps() == 1);
    for (const auto& tensor : loop.optimizer().state())
        for (const double entry : tensor.entries) CHECK(std::isfinite(entry));

    CHECK(!loop.step(toy).diverged());
    CHECK(loop.steps() == 2);
}

TEST_CASE("a loss that stays above the limit is a divergence, one that goes over it once is not") {
    Toy toy;
    std::vector<double> losses{1.0, 1.0, 9.0, 1.0, 4.0, 6.0, 6.0};
    const auto run = [&](TrainingLoop<double>& loop) {
        return loop.step([&](std::uint64_t batch) { return LossSum{2.0 * losses.at(batch), 0.0, 2, 0}; });
    };
    const TrainingOptions options{.largest_loss = 5.0, .window = 3};
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list), Schedule::constant(0.1), options);
    for (int t = 1; t <= 6; ++t) CHECK(run(loop).divergence == "");
    const StepResult result = run(loop);
    CHECK(result.divergence == "step 7: the mean loss of the last 3 steps is 5.33333, above the limit of 5");
    CHECK(loop.steps() == 6);

    losses = {9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0};
    loop.resume(6);  // the window is new
    CHECK(!run(loop).diverged());
    CHECK(!run(loop).diverged());
    CHECK(run(loop).divergence == "step 9: the mean loss of the last 3 steps is 9, above the limit of 5");

    TrainingLoop<double> any(toy.list, SGD<double>(toy.list), Schedule::constant(0.1));
    losses.assign(30, 1e300);
    for (int t = 0; t < 30; ++t) CHECK(!run(any).diverged());
}

TEST_CASE("a schedule may be a function") {
    Toy toy;
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list),
                              [](std::uint64_t step) { return step == 1 ? 0.5 : std::nan(""); });
    CHECK(loop.step(toy).learning_rate == 0.5);
    CHECK_THROWS_WITH(loop.step(toy), "SGD: learning rate is nan, expected a finite number of at least 0");
}

TEST_CASE("an exception in a batch leaves the run where it was") {
    Toy toy;
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list, {.momentum = 0.5}), Schedule::constant(0.1));
    loop.step(toy);
    const std::vector<double> before = values_of(toy.list);
    CHECK_THROWS_WITH(loop.step([&](std::uint64_t number) -> LossSum {
        toy(number);
        throw std::runtime_error("the file is gone");
    }),
                      "the file is gone");
    CHECK(values_of(toy.list) == before);
    CHECK(loop.steps() == 1);
}

TEST_CASE("no parameters train") {
    const ParameterList<float> none;
    TrainingLoop<float> loop(none, Adam<float>(none), Schedule::constant(0.1), {.clip_norm = 1.0});
    const StepResult result = loop.step([](std::uint64_t) { return LossSum{3.0, 3.0, 2, 1}; });
    CHECK(result.loss == 1.5);
    CHECK(result.gradient_norm == 0.0);
    CHECK(!result.diverged());
}

TEST_CASE("wrong arguments are refused with their values") {
    Toy toy;
    const auto make = [&](const TrainingOptions& options) {
        TrainingLoop<double>(toy.list, SGD<double>(toy.list), Schedule::constant(0.1), options);
    };
    CHECK_THROWS_WITH(make({.clip_norm = -1.0}),
                      "TrainingLoop: clip norm is -1, expected a finite number of at least 0");
    CHECK_THROWS_WITH(make({.accumulate = 0}), "TrainingLoop: number of batches in a step is 0, expected at least 1");
    CHECK_THROWS_WITH(make({.largest_loss = 0.0}), "TrainingLoop: largest loss is 0, expected a number above 0");
    CHECK_THROWS_WITH(make({.largest_loss = std::nan("")}),
                      "TrainingLoop: largest loss is nan, expected a number above 0");
    CHECK_THROWS_WITH(make({.window = 0}), "TrainingLoop: window is 0, expected at least 1");
    CHECK_THROWS_WITH(TrainingLoop<double>(toy.list, SGD<double>(toy.list), std::function<double(std::uint64_t)>()),
                      "TrainingLoop: the schedule is an empty function");
    TrainingLoop<double> loop(toy.list, SGD<double>(toy.list), Schedule::constant(0.1));
    CHECK_THROWS_WITH(loop.step([](std::uint64_t) { return LossSum{}; }),
                      "TrainingLoop: step 1 has no tokens to average over");
    ParameterList<double> torn = toy.list;
    torn[0].gradient = torn[0].gradient.first(1);
    CHECK_THROWS_WITH(TrainingLoop<double>(torn, SGD<double>(toy.list), Schedule::constant(0.1)),
                      "TrainingLoop: parameter 'w' has 3 entries and its gradient 1");
}
