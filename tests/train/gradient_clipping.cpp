// The norm of all gradients and their clipping, against PyTorch's.
#include <doctest/doctest.h>

#include <normplace/train/gradient_clipping.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE_TEMPLATE("clipping is PyTorch's", T, float, double) {
    for (const auto& run : training_golden().at("clipping")) {
        ParametersByHand<T> parameters = golden_parameters<T>();
        const ParameterList<T> list = parameters.list();
        set_golden_gradients(list, 0);
        const double expected = run.at("norm");
        CHECK(gradient_norm(list) == doctest::Approx(expected).epsilon(1e-14));
        CHECK(clip_gradients(list, run.at("max_norm")) == doctest::Approx(expected).epsilon(1e-14));
        for (const auto& parameter : list)
            check_close<T>(parameter.name, parameter.gradient, run.at("gradients").at(parameter.name));
        CHECK(gradient_norm(list) <= run.at("max_norm").get<double>() * (1.0 + tolerance<T>));
    }
}

TEST_CASE_TEMPLATE("the norm is right for many parameters, to the same bits on any number of threads", T, float,
                   double) {
    ParametersByHand<T> parameters = many_parameters<T>();
    const ParameterList<T> list = parameters.list();
    long double squares = 0.0L;
    for (const auto& parameter : list)
        for (const T entry : parameter.gradient)
            squares += static_cast<long double>(entry) * static_cast<long double>(entry);
    const double norm = gradient_norm(list);
    // A block's four sums of a thousand positive terms each, then 28 blocks: rounding well below 1e-13.
    CHECK(norm == doctest::Approx(static_cast<double>(std::sqrt(squares))).epsilon(1e-13));
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    for (const int threads : {1, 2, 5, 7}) {
        omp_set_num_threads(threads);
        CHECK(gradient_norm(list) == norm);
    }
    omp_set_num_threads(before);
#endif
    const T last = list.back().gradient.back();
    scale_gradients(list, 0.5);
    CHECK(gradient_norm(list) == 0.5 * norm);
    CHECK(list.back().gradient.back() == last / 2);
}

TEST_CASE("float gradients whose squares exceed float") {
    ParametersByHand<float> parameters;
    parameters.add("w", {4}, std::vector<float>(4));
    set_gradients(parameters.list(), 1e30f);
    CHECK(gradient_norm(parameters.list()) == doctest::Approx(2e30));
}

TEST_CASE("a norm that is not finite is returned and scales nothing") {
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        ParametersByHand<double> parameters = golden_parameters<double>();
        const ParameterList<double> list = parameters.list();
        set_gradients(list, 100.0);
        list[1].gradient[1] = bad;
        CHECK(!std::isfinite(clip_gradients(list, 1.0)));
        CHECK(list[0].gradient[0] == 100.0);
        CHECK(list[1].gradient[0] == 100.0);
    }
}

TEST_CASE("no gradients, and gradients of 0") {
    CHECK(clip_gradients(ParameterList<float>{}, 1.0) == 0.0);
    ParametersByHand<float> parameters = golden_parameters<float>();
    CHECK(clip_gradients(parameters.list(), 1.0) == 0.0);
    CHECK(parameters.list()[0].gradient[0] == 0.0f);
}

TEST_CASE("a largest norm that is none is refused") {
    const ParameterList<float> list;
    CHECK_THROWS_WITH(clip_gradients(list, 0.0), "clip_gradients: largest norm is 0, expected a finite number above 0");
    CHECK_THROWS_WITH(clip_gradients(list, std::nan("")),
                      "clip_gradients: largest norm is nan, expected a finite number above 0");
    ParametersByHand<float> parameters = golden_parameters<float>();
    ParameterList<float> torn = parameters.list();
    torn[0].gradient = {};
    const std::string sentence = ": parameter '" + torn[0].name + "' has 5 entries and its gradient 0";
    CHECK_THROWS_WITH(gradient_norm(torn), ("gradient_norm" + sentence).c_str());
    CHECK_THROWS_WITH(scale_gradients(torn, 2.0), ("scale_gradients" + sentence).c_str());
}
