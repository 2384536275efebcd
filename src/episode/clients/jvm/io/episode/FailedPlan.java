package io.episode;

import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The plan of a statement that was refused: its analysis fails. A parser may throw parse errors only. */
final class FailedPlan extends LogicalPlan {
  private static final long serialVersionUID = 1;
  private final AnalysisException error;

  FailedPlan(AnalysisException error) {
    this.error = error;
  }

  @Override
  public boolean resolved() {
    throw FailedPlan.<RuntimeException>unchecked(error);
  }

  @Override
  public Seq<Attribute> output() {
    throw FailedPlan.<RuntimeException>unchecked(error);
  }

  /** Spark's methods throw this exception without a declaration, as Scala does. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  @Override
  public Seq<LogicalPlan> children() {
    return CollectionConverters.asScala(List.<LogicalPlan>of()).toSeq();
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int at) {
    throw new IndexOutOfBoundsException(at);
  }

  @Override
  public boolean canEqual(Object other) {
    return other == this;
  }

  @Override
  public boolean equals(Object other) {
    return other == this;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }
}
