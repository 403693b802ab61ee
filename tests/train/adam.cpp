// Adam and AdamW against PyTorch's.
#include <doctest/doctest.h>

#include <normplace/train/adam.hpp>
#include <normplace/train/optimizer.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

static_assert(Optimizer<Adam<float>, float> && Optimizer<Adam<double>, double>);

namespace {

AdamOptions options_of(const nlohmann::json& json, AdamOptions options) {
    options.beta1 = json.value("beta1", options.beta1);
    options.beta2 = json.value("beta2", options.beta2);
    options.epsilon = json.value("epsilon", options.epsilon);
    options.weight_decay = json.value("weight_decay", options.weight_decay);
    return options;
}

}  // namespace

TEST_CASE_TEMPLATE("every step is PyTorch's", T, float, double) {
    check_against_pytorch<T>("Adam", [](const ParameterList<T>& list, const nlohmann::json& options) {
        return Adam<T>(list, options_of(options, {}));
    });
    check_against_pytorch<T>("AdamW", [](const ParameterList<T>& list, const nlohmann::json& options) {
        return Adam<T>(list, options_of(options, adam_w()));
    });
}

TEST_CASE_TEMPLATE("a saved state goes on bit for bit", T, float, double) {
    check_resuming<T>([](const ParameterList<T>& list) { return Adam<T>(list, adam_w()); });
}

TEST_CASE("threads and the other parameters change nothing") {
    check_threads<float>([](const ParameterList<float>& list) { return Adam<float>(list, adam_w()); });
    check_threads<double>([](const ParameterList<double>& list) { return Adam<double>(list); });
}

TEST_CASE_TEMPLATE("edges", T, float, double) {
    check_edges<T>("Adam", [](const ParameterList<T>& list) { return Adam<T>(list); });
}

TEST_CASE_TEMPLATE("the first step is as long as the learning rate, whatever the gradient's size", T, float, double) {
    for (const T gradient : {T(1e-5), T(1), T(-1e5)}) {
        ParametersByHand<T> parameters;
        parameters.add("w", {1}, {T(0)});
        set_gradients(parameters.list(), gradient);
        Adam<T>(parameters.list(), {.epsilon = 1e-30}).step(0.5);
        CHECK(parameters.list()[0].value[0] == doctest::Approx(gradient > 0 ? -0.5 : 0.5).epsilon(tolerance<T>));
    }
}

TEST_CASE_TEMPLATE("what has no gradient stays, with an epsilon that T cannot hold, too", T, float, double) {
    for (const double epsilon : {1e-8, 1e-60, 5e-324}) {
        ParametersByHand<T> parameters;
        parameters.add("w", {2}, {T(1.5), T(0)});
        Adam<T> optimizer(parameters.list(), {.epsilon = epsilon});
        for (int t = 0; t < 3; ++t) optimizer.step(0.1);
        CHECK(values_of(parameters.list()) == std::vector<T>{T(1.5), T(0)});
    }
}

TEST_CASE("options out of range are refused with their values") {
    const ParameterList<float> list;
    const auto make = [&](const AdamOptions& options) { Adam<float>{list, options}; };
    CHECK_THROWS_WITH(make({.beta1 = 1.2}), "Adam: beta1 is 1.2, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.beta1 = -0.1}), "Adam: beta1 is -0.1, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.beta2 = 1.0}), "Adam: beta2 is 1, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.beta2 = std::nan("")}), "Adam: beta2 is nan, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.epsilon = 0.0}), "Adam: epsilon is 0, expected a finite number above 0");
    CHECK_THROWS_WITH(make({.epsilon = HUGE_VAL}), "Adam: epsilon is inf, expected a finite number above 0");
    CHECK_THROWS_WITH(make(adam_w(-0.01)), "Adam: weight decay is -0.01, expected a finite number of at least 0");
}
