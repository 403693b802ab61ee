// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/report_table.hpp>
#include <sstream>
#include <string>

namespace np = normplace;

TEST_CASE("numbers are as short as their precision allows") {
    using np::detail::number;
    CHECK(number(0.0) == "0");
    CHECK(number(1.0) == "1.00");
    CHECK(number(0.01234) == "0.0123");
    CHECK(number(123.4) == "123");
    CHECK(number(1234.4) == "1234");
    CHECK(number(1.2e-6) == "1.2e-6");
    CHECK(number(123456.0) == "1e+5");
    CHECK(number(np::not_available) == "-");
    CHECK(np::detail::short_number(0.01234) == "0.012");
    CHECK(np::detail::short_number(1.2e-6) == "1e-6");
    CHECK(number(60.93, 0.61) == "60.9(6)");
    CHECK(number(60.93, 0.125) == "60.93(13)");
    CHECK(number(60.93, 1.4) == "60.9(14)");
    CHECK(number(60.93, 0.0) == "60.9");
    CHECK(number(60.93, 1e-9) == "60.93");
    CHECK(number(1.0, 2.0) == "1.00");
}

TEST_CASE("units are powers of a thousand") {
    using np::detail::unit_of;
    CHECK(unit_of(0.23) == doctest::Approx(1e-3));
    CHECK(unit_of(9.99) == doctest::Approx(1e-3));
    CHECK(unit_of(10.0) == doctest::Approx(1.0));
    CHECK(unit_of(9999.0) == doctest::Approx(1.0));
    CHECK(unit_of(12345.0) == doctest::Approx(1e3));
    CHECK(unit_of(0.0) == 1.0);
    CHECK(unit_of(np::not_available) == 1.0);
}

TEST_CASE("a long stack is shown in at most 24 rows, first and last layer among them") {
    using np::detail::shown_layers;
    CHECK(shown_layers(24).size() == 24);
    for (const std::size_t layers : {25u, 100u, 1000u}) {
        const auto shown = shown_layers(layers);
        CHECK(shown.size() == 24);
        CHECK(shown.front() == 0);
        CHECK(shown.back() == layers - 1);
    }
}

TEST_CASE("a report prints its placement, every layer and where a value is missing") {
    np::GradientReport report;
    report.placement = "post-ln";
    report.formula = "norm(x + f(x))";
    report.layers.resize(2);
    report.layers[0].w2 = {0.0609, 0.0006};
    report.readout.norm = 0.5;
    report.loss.value = 6.9078;
    std::ostringstream text;
    text << report;
    CHECK(text.str() ==
          "post-ln   norm(x + f(x))\n"
          "\n"
          "Gradient norm of each matrix, predicted, in units of 0.001, and the stream after the layer\n"
          "layer       W_q       W_k       W_v       W_o       W_1       W_2   second moment  token correlation\n"
          "   1         -         -         -         -         -   60.9(6)               -                -\n"
          "   2         -         -         -         -         -         -               -                -\n"
          "\n"
          "readout 0.500, loss 6.9078\n");
}

TEST_CASE("marks of a prediction: less certain, beyond the theory, and a line on those that occur") {
    np::GradientReport report;
    report.layers.resize(2);
    for (np::LayerReport& layer : report.layers)
        for (np::GradientNorm* weight : {&layer.wq, &layer.wk, &layer.wv, &layer.wo, &layer.w1, &layer.w2})
            weight->norm = 20.0;
    const auto text = [&] {
        std::ostringstream stream;
        stream << report;
        return stream.str();
    };
    const auto has = [&](const char* part) { return text().find(part) != std::string::npos; };
    CHECK_FALSE(has("warnings"));
    report.layers[0].wv.validity = np::Validity::less_certain;
    CHECK(has("\n   1      20.0      20.0      20.0~     20.0      20.0      20.0 "));
    CHECK(has("\n~ less certain: the report's warnings say why.\n"));
    report.layers[1].wq = {np::not_available, 0.0, np::Validity::fails, np::Limit::large_scores};
    CHECK(has("\n   2         -      20.0      20.0      20.0 "));
    CHECK(has("\n~ less certain, - beyond the theory: the report's warnings say why.\n"));
    report.layers[0].wv.validity = np::Validity::holds;
    CHECK(has("\n- beyond the theory: the report's warnings say why.\n"));
}
